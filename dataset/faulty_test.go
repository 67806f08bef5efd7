package dataset

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// openFaulty returns a store of two files of 100 zeros, d/a.l3 and d/b.l3, with
// what a script has for it.
func openFaulty(t *testing.T, script string) Store {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "d"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"d/a.l3", "d/b.l3"} {
		if err := os.WriteFile(filepath.Join(dir, name), make([]byte, 100), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	local, err := OpenLocal(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { local.Close() })
	faults, err := ParseFaults(script)
	if err != nil {
		t.Fatal(err)
	}
	return Faulty(local, faults)
}

// readFaulty reads n bytes at off of a file of a store.
func readFaulty(t *testing.T, s Store, name string, off int64, n int) ([]byte, error) {
	t.Helper()
	f, err := s.Open(context.Background(), name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p := make([]byte, n)
	n, err = f.ReadAt(p, off)
	return p[:n], err
}

func TestFaultyFails(t *testing.T) {
	s := openFaulty(t, "stat fail EIO path a.l3; open fail ESTALE path d/b*; list fail EACCES every 2; read fail ETIMEDOUT first 1")
	ctx := context.Background()
	if _, err := s.Stat(ctx, "d/a.l3"); !errors.Is(err, syscall.EIO) || !strings.Contains(err.Error(), "d/a.l3") {
		t.Errorf("stat: %v", err)
	}
	if _, err := s.Stat(ctx, "d/b.l3"); err != nil {
		t.Errorf("stat of another file: %v", err)
	}
	if _, err := s.Open(ctx, "d/b.l3"); !errors.Is(err, syscall.ESTALE) {
		t.Errorf("open: %v", err)
	}
	for i, want := range []error{nil, syscall.EACCES, nil, syscall.EACCES} {
		if err := s.ReadDir(ctx, "d", func(DirEntry) bool { return true }); !errors.Is(err, want) {
			t.Errorf("listing %d: %v, want %v", i, err, want)
		}
	}
	if _, err := readFaulty(t, s, "d/a.l3", 0, 10); !errors.Is(err, syscall.ETIMEDOUT) {
		t.Errorf("first read: %v", err)
	}
	if got, err := readFaulty(t, s, "d/a.l3", 0, 10); err != nil || len(got) != 10 {
		t.Errorf("second read: %d bytes, %v", len(got), err)
	}
}

func TestFaultyBytes(t *testing.T) {
	s := openFaulty(t, "read flip 42 path a.l3 first 1; read cut 30 path b.l3")
	wrong := make([]byte, 10)
	wrong[2] = 0x10
	for i, want := range [][]byte{wrong, make([]byte, 10)} {
		if _, err := readFaulty(t, s, "d/a.l3", 0, 42); err != nil { // does not touch the byte
			t.Fatal(err)
		}
		if got, err := readFaulty(t, s, "d/a.l3", 40, 10); err != nil || !bytes.Equal(got, want) {
			t.Errorf("read %d: %x, %v, want %x", i, got, err, want)
		}
	}
	for _, c := range []struct {
		off  int64
		n    int
		want int
		err  error
	}{{0, 30, 30, nil}, {20, 20, 10, io.EOF}, {50, 10, 0, io.EOF}} {
		got, err := readFaulty(t, s, "d/b.l3", c.off, c.n)
		if len(got) != c.want || !errors.Is(err, c.err) {
			t.Errorf("%d bytes at %d: %d, %v, want %d, %v", c.n, c.off, len(got), err, c.want, c.err)
		}
	}
}

func TestFaultyDelay(t *testing.T) {
	s := openFaulty(t, "open delay 1h")
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	if _, err := s.Open(ctx, "d/a.l3"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("an open that was given up: %v", err)
	}
}

func TestParseFaults(t *testing.T) {
	const right = "read fail EIO path dogs/*.l3 every 3; open delay 20ms ;; read flip 4096 path a.l3 first 1"
	f, err := ParseFaults(right)
	if err != nil || len(f.rules) != 3 || f.String() != right {
		t.Errorf("%d rules, %q, %v", len(f.rules), f, err)
	}
	for _, wrong := range []string{
		"read", "read fail", "write fail EIO", "read fail EWHAT", "read fail EIO delay 1s", "open cut 3", "stat flip 3",
		"read cut -1", "read every 0 fail EIO", "read fail EIO path [", "read fail EIO often 3", "open delay soon",
	} {
		if _, err := ParseFaults(wrong); err == nil {
			t.Errorf("%q was taken", wrong)
		}
	}
}
