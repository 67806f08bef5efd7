package fs

import (
	"errors"
	"io"
	"log"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// newServer mounts, and gives the error that fusermount3 prints: go-fuse passes
// our standard error on to it, and tells the exit status alone.
func newServer(fs fuse.RawFileSystem, mountpoint string, opt *fuse.MountOptions) (*fuse.Server, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	stderr := os.Stderr
	os.Stderr = write
	server, err := fuse.NewServer(fs, mountpoint, opt)
	os.Stderr = stderr
	write.Close()
	said, readErr := io.ReadAll(read)
	read.Close()
	text := strings.TrimSpace(string(said))
	if err == nil || readErr != nil || text == "" {
		return server, err
	}
	_, reason, found := strings.Cut(text, ": ") // after the path of the program
	if found && strings.HasPrefix(filepath.Base(text[:len(text)-len(reason)-2]), "fusermount") {
		text = reason
	}
	return nil, errors.New(text)
}

// connectionLog is what go-fuse logs to. That the connection ends with the mount, when
// the last file of a detached one is closed, is no news.
func connectionLog(to *slog.Logger) *log.Logger {
	return log.New(connectionLines{slog.NewLogLogger(to.Handler(), slog.LevelWarn)}, "", 0)
}

type connectionLines struct{ to *log.Logger }

func (l connectionLines) Write(p []byte) (int, error) {
	line := strings.TrimRight(string(p), "\n")
	if strings.HasPrefix(line, "Failed to read from fuse conn: ") && strings.Contains(line, syscall.ECONNABORTED.Error()) {
		return len(p), nil
	}
	l.to.Print(line)
	return len(p), nil
}
