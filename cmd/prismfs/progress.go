package main

import (
	"os"

	"github.com/spf13/cobra"
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/sys/unix"
)

// progress is a bar on a terminal, and nothing anywhere else: output to a
// file or pipe is for programs.
type progress struct {
	container *mpb.Progress
	bar       *mpb.Bar
}

// newProgress starts a bar on standard error.
func newProgress(cmd *cobra.Command, verb string) *progress {
	f, ok := cmd.ErrOrStderr().(*os.File)
	if !ok || !isTerminal(f) {
		return &progress{}
	}
	container := mpb.New(mpb.WithOutput(f), mpb.WithRefreshRate(refreshEvery), mpb.WithAutoRefresh())
	bar := container.AddBar(0,
		mpb.BarRemoveOnComplete(),
		mpb.PrependDecorators(decor.Name(verb+" "), decor.CountersNoUnit("%d / %d files")),
		mpb.AppendDecorators(decor.AverageSpeed(0, "%.0f files/s "), decor.AverageETA(decor.ET_STYLE_GO)))
	return &progress{container, bar}
}

func isTerminal(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// update moves the bar; a total of 0 is not known yet.
func (p *progress) update(done, total int) {
	if p.bar == nil {
		return
	}
	p.bar.SetTotal(int64(max(total, done+1)), false)
	p.bar.SetCurrent(int64(done))
}

// finish takes the bar away.
func (p *progress) finish() {
	if p.bar != nil {
		p.bar.Abort(true)
		p.container.Wait()
	}
}
