package main

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"prismfs/fs"
)

// service says how a process that serves a mount behaves.
type service struct {
	report     func(error) // is told how mounting went; may be nil
	log        *logFile    // nil for none
	background bool        // no terminal can close on it
	// keeper is open for as long as somebody else decides how long the mount is
	// there; its end detaches, and signals do nothing. nil leaves it to signals.
	keeper io.Reader
	// linger is for how long files that are open when a signal comes can still be
	// read: the mount is detached at once. 0 keeps a busy mount.
	linger time.Duration
}

// serve mounts, reports and stays until the mount is gone; departure says how signals
// end it. SIGHUP opens the log file anew; where there is none, a process in the
// foreground takes it for the end of its terminal.
func serve(opt fs.Options, s service) error {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	reopens := s.background || s.log != nil
	if reopens || !signal.Ignored(syscall.SIGHUP) { // as nohup has it
		signal.Notify(signals, syscall.SIGHUP)
	}
	if s.log != nil {
		opt.LogFile = s.log.path
	}
	mounted, err := s.mount(opt, signals)
	if s.report != nil {
		s.report(err)
	}
	if err != nil {
		return err
	}
	fs.LimitHeap(mounted.Stats().CacheBudget)
	tellSystemd("READY=1\nSTATUS=" + s.state(mounted, opt))
	gone := make(chan struct{})
	go func() {
		mounted.Wait()
		close(gone)
	}()
	leaving := departure{mounted: mounted, linger: s.linger}
	abandoned := s.keeperEnds()
	for {
		select {
		case <-gone:
			return nil
		case <-leaving.over:
			return leaving.end()
		case <-abandoned:
			if err := mounted.Detach(); err != nil {
				mounted.Logger().Debug("it is detached already", "error", err)
			}
			abandoned = nil
		case sig := <-signals:
			if sig == syscall.SIGHUP && reopens {
				s.reopenLog(mounted.Logger())
				continue
			}
			if s.keeper != nil {
				continue
			}
			if leaving.signalled() {
				return leaving.end()
			}
		}
	}
}

// giveUpWait is how long a mount that is being made may take to be finished when a
// signal comes, which then holds for the whole one.
const giveUpWait = 2 * time.Second

// mount mounts; a signal ends the attempt, whatever it waits for.
func (s service) mount(opt fs.Options, signals chan os.Signal) (*fs.Mounted, error) {
	type result struct {
		mounted *fs.Mounted
		err     error
	}
	made := make(chan result, 1)
	go func() {
		mounted, err := fs.Mount(opt)
		made <- result{mounted, withStatus(statusOfMount(err), err)}
	}()
	var caught os.Signal
	var late <-chan time.Time // nil until then
	for {
		select {
		case r := <-made:
			if caught != nil && r.err == nil {
				select { // for serve, which knows what to do
				case signals <- caught:
				default: // there are others
				}
			}
			return r.mounted, r.err
		case <-late:
			return nil, errGivenUp
		case sig := <-signals:
			switch {
			case sig == syscall.SIGHUP && (s.background || s.log != nil):
				s.reopenLog(slog.Default())
			case s.keeper == nil && late == nil:
				caught, late = sig, time.After(giveUpWait)
			}
		}
	}
}

// errGivenUp says that a signal came before the mount answered.
var errGivenUp = withStatus(statusInterrupted, errors.New("interrupted before the mount answered"))

// state is what systemctl status shows.
func (s service) state(mounted *fs.Mounted, opt fs.Options) string {
	text := oneLine(opt.Source) + " at " + oneLine(opt.Mountpoint) + ", " + speedText(mounted.Stats().Passthrough)
	if s.log != nil {
		text += "; log " + oneLine(s.log.path)
	}
	return text
}

// keeperEnds returns a channel that is closed when the keeper has gone.
func (s service) keeperEnds() <-chan struct{} {
	if s.keeper == nil {
		return nil
	}
	gone := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, s.keeper) // nothing is ever said
		close(gone)
	}()
	return gone
}

func (s service) reopenLog(log *slog.Logger) {
	if s.log == nil {
		return
	}
	if err := s.log.reopen(); err != nil {
		log.Warn("the old log file is kept", "error", err)
		return
	}
	log.Info("the log file was opened anew", "file", s.log.path)
}

// tellSystemd sends a state to the service manager that started this process, as
// sd_notify(3) does. Where there is none, or it does not listen, nothing depends
// on it.
func tellSystemd(state string) {
	address := os.Getenv("NOTIFY_SOCKET")
	if address == "" {
		return
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Net: "unixgram", Name: address})
	if err != nil {
		slog.Debug("the service manager cannot be told that the mount answers", "error", err)
		return
	}
	defer conn.Close()
	if _, err := conn.Write([]byte(state)); err != nil {
		slog.Debug("the service manager was not told that the mount answers", "error", err)
	}
}
