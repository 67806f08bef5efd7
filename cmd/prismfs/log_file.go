package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/spf13/cobra"
)

// logFile is the file of --log-file. It can be opened anew while it is written
// to, since logrotate renames the file that it finds and expects another one to
// be begun.
type logFile struct {
	path string // absolute: a background process leaves the folder of its caller

	mu   sync.Mutex
	file *os.File
}

func openLogFile(name string) (*logFile, error) {
	path, err := filepath.Abs(name)
	if err != nil {
		return nil, err
	}
	l := &logFile{path: path}
	return l, l.reopen()
}

// reopen goes on in the file that has the name now. If it cannot be opened, the
// old one is kept.
func (l *logFile) reopen() error {
	f, err := os.OpenFile(l.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("opening --log-file: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file != nil {
		l.file.Close()
	}
	l.file = f
	return nil
}

func (l *logFile) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.file.Write(p)
}

func (l *logFile) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.file.Close()
}

// logFileKey is where a command's context has its log file.
type logFileKey struct{}

// logFileOf returns the log file of a command line, nil for none.
func logFileOf(cmd *cobra.Command) *logFile {
	l, _ := cmd.Context().Value(logFileKey{}).(*logFile)
	return l
}

func withLogFile(ctx context.Context, l *logFile) context.Context {
	return context.WithValue(ctx, logFileKey{}, l)
}
