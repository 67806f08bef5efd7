package dataset

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// Faulty makes a store go wrong by a script, for tests: what a mount does when
// disks and networks fail is to be seen without them. Closing it closes store.
func Faulty(store Store, script Faults) Store {
	return &faulty{Store: store, rules: script.rules}
}

// Faults are what is to go wrong with a store. The zero value is nothing.
type Faults struct {
	text  string
	rules []*faultRule
}

// String returns the script.
func (f Faults) String() string { return f.text }

// faultRule is a part of a script: what happens to which calls.
type faultRule struct {
	operation string        // stat, list, open or read
	err       error         // that the call fails with, or nil
	delay     time.Duration // before it
	cut       int64         // of reads: where the file ends, −1 for nowhere
	flip      int64         // of reads: the byte of which a bit is wrong, −1 for none
	pattern   string        // of path.Match, "" for all
	every     uint64        // of the calls that match, 1 for all
	first     uint64        // so many of them alone, 0 for all

	calls, done atomic.Uint64
}

// faultErrors are the errors that a script can name.
var faultErrors = map[string]error{
	"EIO": syscall.EIO, "EACCES": syscall.EACCES, "ENOENT": syscall.ENOENT, "ESTALE": syscall.ESTALE,
	"ETIMEDOUT": syscall.ETIMEDOUT, "ENOMEM": syscall.ENOMEM, "EMFILE": syscall.EMFILE, "EREMOTEIO": syscall.EREMOTEIO,
}

// ParseFaults reads a script: rules with semicolons between them, each of an
// operation, what happens to it, and, if not to all, to which:
//
//	stat|list|open|read  fail ERROR | delay DURATION | cut BYTES | flip OFFSET  [path PATTERN] [every N] [first N]
//
// ERROR is a name such as EIO. cut ends files after so many bytes, flip gives
// the byte at an offset a wrong bit; both are of reads, and so is every, where it
// counts the reads that they touch. PATTERN is one of path.Match, held against the
// whole path, or without a slash against its last part.
//
//	read fail EIO path dogs/*.l3 every 3; open delay 20ms; read flip 4096 path a.l3 first 1
func ParseFaults(text string) (Faults, error) {
	f := Faults{text: text}
	for rule := range strings.SplitSeq(text, ";") {
		words := strings.Fields(rule)
		if len(words) == 0 {
			continue
		}
		r, err := parseFaultRule(words)
		if err != nil {
			return Faults{}, fmt.Errorf("%q: %w", strings.TrimSpace(rule), err)
		}
		f.rules = append(f.rules, r)
	}
	return f, nil
}

func parseFaultRule(words []string) (*faultRule, error) {
	if len(words)%2 == 0 {
		return nil, errors.New("want an operation, and then words in pairs")
	}
	r := &faultRule{operation: words[0], cut: -1, flip: -1, every: 1}
	if !slices.Contains([]string{"stat", "list", "open", "read"}, r.operation) {
		return nil, fmt.Errorf("%q is none of stat, list, open, read", r.operation)
	}
	faults := 0
	for pair := range slices.Chunk(words[1:], 2) {
		isFault, err := r.set(pair[0], pair[1])
		if err != nil {
			return nil, err
		}
		if isFault {
			faults++
		}
	}
	switch {
	case faults != 1:
		return nil, fmt.Errorf("%d faults, want one of fail, delay, cut, flip", faults)
	case r.operation != "read" && (r.cut >= 0 || r.flip >= 0):
		return nil, fmt.Errorf("cut and flip are of read, not of %s", r.operation)
	}
	return r, nil
}

// set sets what a pair of words says, and reports whether that is a fault.
func (r *faultRule) set(word, value string) (isFault bool, err error) {
	switch word {
	case "fail":
		if r.err = faultErrors[value]; r.err == nil {
			return false, fmt.Errorf("%q is no error that can be had", value)
		}
		return true, nil
	case "delay":
		r.delay, err = time.ParseDuration(value)
		return true, err
	case "cut":
		r.cut, err = parseOffset(value)
		return true, err
	case "flip":
		r.flip, err = parseOffset(value)
		return true, err
	case "path":
		r.pattern = value
		_, err = path.Match(value, "")
		return false, err
	case "every":
		r.every, err = parseCount(value)
		return false, err
	case "first":
		r.first, err = parseCount(value)
		return false, err
	}
	return false, fmt.Errorf("%q is none of fail, delay, cut, flip, path, every, first", word)
}

func parseOffset(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err == nil && n < 0 {
		err = fmt.Errorf("%d is negative", n)
	}
	return n, err
}

func parseCount(text string) (uint64, error) {
	n, err := strconv.ParseUint(text, 10, 64)
	if err == nil && n == 0 {
		err = errors.New("0 is no count")
	}
	return n, err
}

// matches reports whether a rule is of an operation on a path.
func (r *faultRule) matches(operation, name string) bool {
	if r.operation != operation {
		return false
	}
	if !strings.Contains(r.pattern, "/") {
		name = path.Base(name)
	}
	ok, err := path.Match(r.pattern, name)
	return r.pattern == "" || ok && err == nil
}

// due counts a call that a rule is of, and reports whether it is to go wrong.
func (r *faultRule) due() bool {
	if r.calls.Add(1)%r.every != 0 {
		return false
	}
	return r.first == 0 || r.done.Add(1) <= r.first
}

// faulty is a store of which calls go wrong.
type faulty struct {
	Store
	rules []*faultRule
}

// before does what a script has for a call: it delays it, and returns the error
// that it is to fail with.
func (s *faulty) before(ctx context.Context, operation, name string) error {
	for _, r := range s.rules {
		if r.cut >= 0 || r.flip >= 0 || !r.matches(operation, name) || !r.due() {
			continue
		}
		if r.err != nil {
			return &fs.PathError{Op: operation, Path: s.Store.String() + "/" + name, Err: r.err}
		}
		select {
		case <-time.After(r.delay):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (s *faulty) Stat(ctx context.Context, path string) (Info, error) {
	if err := s.before(ctx, "stat", path); err != nil {
		return Info{}, err
	}
	return s.Store.Stat(ctx, path)
}

func (s *faulty) ReadDir(ctx context.Context, path string, yield func(DirEntry) bool) error {
	if err := s.before(ctx, "list", path); err != nil {
		return err
	}
	return s.Store.ReadDir(ctx, path, yield)
}

func (s *faulty) Open(ctx context.Context, path string) (File, error) {
	if err := s.before(ctx, "open", path); err != nil {
		return nil, err
	}
	f, err := s.Store.Open(ctx, path)
	if err != nil {
		return nil, err
	}
	return &faultyFile{File: f, store: s, path: path}, nil
}

// faultyFile is a file of which reads go wrong.
type faultyFile struct {
	File
	store *faulty
	path  string
}

func (f *faultyFile) ReadAt(p []byte, off int64) (int, error) {
	if err := f.store.before(context.Background(), "read", f.path); err != nil {
		return 0, err
	}
	n, err := f.File.ReadAt(p, off)
	for _, r := range f.store.rules {
		if !r.matches("read", f.path) {
			continue
		}
		switch end := off + int64(n); {
		case r.cut >= 0 && end > r.cut && r.due():
			n, err = int(max(r.cut-off, 0)), io.EOF
		case r.flip >= off && r.flip < end && r.due():
			p[r.flip-off] ^= 0x10
		}
	}
	return n, err
}
