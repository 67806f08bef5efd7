package order

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// The limits of a plan.
const (
	// MaxPlanBytes bounds the text of a plan: sixteen million paths of 64 bytes.
	MaxPlanBytes = 1 << 30
	// MaxPlanLines bounds the lines of a plan; a line's number has so many bits in
	// the index.
	MaxPlanLines = 1<<planLineBits - 1
	// maxPlanLine is the longest path that the kernel takes, in bytes.
	maxPlanLine = 4096

	// planLineBits of a word of the index are a line's number, the others are of
	// the hash of its path.
	planLineBits = 24
	// planStride is how many lines there are to one offset that is kept.
	planStride = 32
)

// ErrPlan is wrapped by the errors of ReadPlan about a text that is no plan.
var ErrPlan = errors.New("not a plan")

// ErrPlanTooLarge is wrapped by the errors of ReadPlan about a text that is longer
// than a plan may be.
var ErrPlanTooLarge = errors.New("a plan that is too large")

// PlanText says how the text of a plan is read.
type PlanText struct {
	Prefixes []string                 // folders that paths may begin with, which are taken off
	Hash     func(path string) uint64 // of a path; the upper bits count
	MaxLines int64                    // at most MaxPlanLines; 0: that
	MaxBytes int64                    // at most MaxPlanBytes; 0: that
	Dir      string                   // where the paths are kept; "": the folder of temporary files

	// Come is called when the text has come to its end, before memory is taken for
	// its lines; it may wait. It may be nil.
	Come func() error
}

// PlanLines are the paths of a plan in their order. The paths are in an unnamed
// file; memory has 8 bytes for each, by which a path is found again, and one more
// for each four.
type PlanLines struct {
	file    *os.File
	bytes   int64
	index   []uint64 // hash and number of each line, sorted
	offsets []int64  // of the first of each planStride lines
}

// ReadPlan reads a text of paths, one a line, to its end. Lines end in LF or CR LF;
// empty ones do not count. Close frees what the lines have.
func ReadPlan(r io.Reader, text PlanText) (*PlanLines, error) {
	file, err := UnnamedFile(text.Dir)
	if err != nil {
		return nil, fmt.Errorf("keeping the paths of a plan: %w", err)
	}
	p := &PlanLines{file: file}
	n, err := p.spool(r, text)
	if err == nil && text.Come != nil {
		err = text.Come()
	}
	if err == nil {
		err = p.buildIndex(n, text.Hash)
	}
	if err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// UnnamedFile makes a file in a folder, that of temporary files where it is "". It
// has no name, so that nobody else can open it and it is gone when it is closed.
func UnnamedFile(dir string) (*os.File, error) {
	if dir == "" {
		dir = os.TempDir()
	}
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err == nil {
		return os.NewFile(uintptr(fd), dir), nil
	}
	f, err := os.CreateTemp(dir, "prismfs-plan-") // on a file system without such files
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// spool writes the paths of a text into the file and returns how many there are.
func (p *PlanLines) spool(r io.Reader, text PlanText) (int64, error) {
	most := orMost(text.MaxBytes, MaxPlanBytes)
	limited := &io.LimitedReader{R: r, N: most + 1}
	in := bufio.NewReaderSize(limited, 4*maxPlanLine)
	out := bufio.NewWriterSize(p.file, 1<<16)
	n, number := int64(0), int64(0)
	for {
		line, err := in.ReadSlice('\n')
		number++
		if limited.N == 0 {
			return 0, fmt.Errorf("%w: more than %d bytes", ErrPlanTooLarge, most)
		}
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, bufio.ErrBufferFull) {
			return 0, fmt.Errorf("reading a plan: %w", err)
		}
		last := errors.Is(err, io.EOF)
		line = bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
		if len(line) > 0 {
			name, err := cleanPath(line, text.Prefixes)
			if err != nil {
				return 0, fmt.Errorf("%w: line %d: %w", ErrPlan, number, err)
			}
			if n++; n > orMost(text.MaxLines, MaxPlanLines) {
				return 0, fmt.Errorf("%w: more than %d lines", ErrPlanTooLarge, n-1)
			}
			out.WriteString(name) // whose error comes again, with that of all writes after it
			if err := out.WriteByte('\n'); err != nil {
				return 0, fmt.Errorf("keeping the paths of a plan: %w", err)
			}
			p.bytes += int64(len(name)) + 1
		}
		if last {
			break
		}
	}
	if err := out.Flush(); err != nil {
		return 0, fmt.Errorf("keeping the paths of a plan: %w", err)
	}
	if n == 0 {
		return 0, fmt.Errorf("%w: it has no lines", ErrPlan)
	}
	return n, nil
}

// orMost returns a limit that may be left to be most.
func orMost(limit, most int64) int64 {
	if limit <= 0 {
		return most
	}
	return min(limit, most)
}

// cleanPath returns the path of a line below the mount point.
func cleanPath(line []byte, prefixes []string) (string, error) {
	if len(line) > maxPlanLine {
		return "", fmt.Errorf("more than %d bytes", maxPlanLine)
	}
	if bytes.IndexByte(line, 0) >= 0 {
		return "", errors.New("a zero byte")
	}
	name := string(line)
	if path.IsAbs(name) {
		below, ok := takeOff(path.Clean(name), prefixes)
		if !ok {
			return "", fmt.Errorf("%.200q is not below %s%s", name, strings.Join(prefixes, " or "), Wanted(prefixes))
		}
		name = below
	}
	name = path.Clean(name)
	if name == "." || name == ".." || strings.HasPrefix(name, "../") {
		return "", fmt.Errorf("%.200q is no file below the mount point", line)
	}
	return name, nil
}

// Wanted shows by an example how the paths of a plan are written.
func Wanted(prefixes []string) string {
	const example = "train/cat/001.npy"
	if len(prefixes) == 0 {
		return "; want a path below the mount point, such as " + example
	}
	return fmt.Sprintf("; want a path as the job opens it, such as %s, or %s below the mount point", path.Join(prefixes[0], example), example)
}

// takeOff takes the first prefix that name lies below off it.
func takeOff(name string, prefixes []string) (string, bool) {
	for _, prefix := range prefixes {
		if below, ok := strings.CutPrefix(name, strings.TrimSuffix(path.Clean(prefix), "/")+"/"); ok {
			return below, true
		}
	}
	return "", false
}

// buildIndex reads the file again and sets what memory has of its n lines.
func (p *PlanLines) buildIndex(n int64, hash func(string) uint64) error {
	p.index = make([]uint64, 0, n)
	p.offsets = make([]int64, 0, (n+planStride-1)/planStride)
	in := bufio.NewReaderSize(io.NewSectionReader(p.file, 0, p.bytes), 1<<16)
	at := int64(0)
	for i := range n {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return fmt.Errorf("reading the kept paths of a plan: %w", err)
		}
		if i%planStride == 0 {
			p.offsets = append(p.offsets, at)
		}
		at += int64(len(line))
		h := hash(string(line[:len(line)-1]))
		p.index = append(p.index, h>>planLineBits<<planLineBits|uint64(i))
	}
	slices.Sort(p.index)
	return nil
}

// Len is the number of lines.
func (p *PlanLines) Len() int64 { return int64(len(p.index)) }

// Path returns the path of line i.
func (p *PlanLines) Path(i int64) (string, error) {
	begin, end := p.offsets[i/planStride], p.bytes
	if next := i/planStride + 1; next < int64(len(p.offsets)) {
		end = p.offsets[next]
	}
	block := make([]byte, end-begin)
	if _, err := p.file.ReadAt(block, begin); err != nil {
		return "", fmt.Errorf("reading the kept paths of a plan: %w", err)
	}
	for range i % planStride {
		_, block, _ = bytes.Cut(block, []byte("\n"))
	}
	line, _, _ := bytes.Cut(block, []byte("\n"))
	return string(line), nil
}

// find returns the lines that have the hash, as words of the index, in order.
// Where a file is not in the plan, it may still be that of another path, one in
// a million times where the plan has a million lines.
func (p *PlanLines) find(hash uint64) []uint64 {
	first := hash >> planLineBits << planLineBits
	from, _ := slices.BinarySearch(p.index, first)
	to := from
	for to < len(p.index) && p.index[to]>>planLineBits == hash>>planLineBits {
		to++
	}
	return p.index[from:to]
}

// lineOf returns the number of the line that a word of the index is of.
func lineOf(word uint64) int64 { return int64(word & MaxPlanLines) }

// Close frees the file.
func (p *PlanLines) Close() error { return p.file.Close() }
