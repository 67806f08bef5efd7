package cache

import (
	"math"
	"sync"

	"golang.org/x/sys/unix"
)

// chunkBytes is what is mapped at once for buffers of up to its size. One
// mapping a buffer would not do: holes left by evictions split mappings, a
// process may have 65,530 of them (vm.max_map_count), and Go's runtime dies
// with the one after that.
const chunkBytes = 64 << 20

// populateBytes is the size from which taking all pages by one call is cheaper
// than one trap a page.
const populateBytes = 64 << 10

// warmBytes is how much freed memory keeps its pages for the next buffers. Fresh
// pages are zeroed by the kernel one trap at a time, which costs more than
// decoding into pages that are there; a few buffers for each reader suffice.
const warmBytes = 64 << 20

// memory is a medium of anonymous mappings: no descriptor, and the filled
// scratch memory is the buffer. It serves readers whose bytes pass through
// this process anyway.
//
// Addresses are plentiful and pages are not: a buffer has a range of a power of
// two bytes, of which only the pages that it wrote take memory. A freed range
// keeps its address for the next buffer of its class, and its pages as long as
// few do. Reusing them is right here and here only: readers never have these
// pages, they have copies.
type memory struct {
	warmLimit int // bytes that may stay warm

	mu     sync.Mutex
	warm   [maxClass + 1][][]byte // ranges with pages; len is what has them
	warmed int                    // bytes of warm ranges
	spare  [maxClass + 1][][]byte // ranges without pages
	fresh  [maxClass + 1][]byte   // the part of a class's newest chunk not yet handed out
	chunks [][]byte
	lent   int // ranges handed out
	closed bool
}

// NewMemory returns a medium of plain memory, outside Go's heap. It keeps spare bytes
// at most beside what buffers take, and a few buffers' worth of them.
func NewMemory(spare int64) Medium { return &memory{warmLimit: int(min(max(spare, 0), warmBytes))} }

func (*memory) Name() string        { return "memory" }
func (*memory) maxDescriptors() int { return math.MaxInt32 }

// Close unmaps everything, or leaves that to the last range that comes back.
func (m *memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	return m.unmapIfIdle()
}

func (m *memory) scratch(size int64) ([]byte, error) {
	if size == 0 {
		return nil, nil
	}
	if size < 0 || size > 1<<maxClass {
		return nil, unix.ENOMEM
	}
	r, has, err := m.lend(classOf(size))
	if err != nil {
		return nil, err
	}
	need := pagesOf(size)
	switch {
	case has > need:
		// The buffer is charged for need bytes.
		_ = unix.Madvise(r[need:has], unix.MADV_DONTNEED)
	case need-has >= populateBytes:
		// Before Linux 5.14 this fails, and the pages come one by one.
		_ = unix.Madvise(r[has:need], unix.MADV_POPULATE_WRITE)
	}
	return r[:size], nil
}

// pagesOf rounds size up to whole pages.
func pagesOf(size int64) int { return int((size + pageBytes - 1) / pageBytes * pageBytes) }

// lend returns a range of 1<<class bytes, and how many of them have pages.
func (m *memory) lend(class int) (r []byte, has int, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, 0, ErrClosed
	}
	if r, ok := pop(&m.warm[class]); ok {
		m.warmed -= len(r)
		m.lent++
		return r[:1<<class], len(r), nil
	}
	r, err = m.take(class)
	if err == nil {
		m.lent++
	}
	return r, 0, err
}

// pop takes the range that was put last, whose pages the processor may hold.
func pop(ranges *[][]byte) ([]byte, bool) {
	last := len(*ranges) - 1
	if last < 0 {
		return nil, false
	}
	r := (*ranges)[last]
	*ranges = (*ranges)[:last]
	return r, true
}

// take returns a range without pages: one that was used before, or a part of a
// chunk.
func (m *memory) take(class int) ([]byte, error) {
	if r, ok := pop(&m.spare[class]); ok {
		return r, nil
	}
	if len(m.fresh[class]) == 0 {
		chunk, err := mapChunk(max(1<<class, chunkBytes))
		if err != nil {
			return nil, err
		}
		m.chunks = append(m.chunks, chunk)
		m.fresh[class] = chunk
	}
	r := m.fresh[class][: 1<<class : 1<<class]
	m.fresh[class] = m.fresh[class][1<<class:]
	return r, nil
}

// mapChunk maps addresses without taking memory. Huge pages are refused: one
// would hold pages of several buffers, or more than a buffer is charged for.
func mapChunk(size int) ([]byte, error) {
	chunk, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_NORESERVE)
	if err != nil {
		return nil, err
	}
	// It fails where the kernel has no huge pages.
	_ = unix.Madvise(chunk, unix.MADV_NOHUGEPAGE)
	return chunk, nil
}

func (*memory) publish(filled []byte) (content, error) {
	return content{fd: -1, mem: filled}, nil
}

func (m *memory) free(c *content) {
	m.discard(c.mem)
	c.mem = nil
}

func (m *memory) discard(scratch []byte) {
	if cap(scratch) == 0 {
		return
	}
	class := classOf(int64(cap(scratch)))
	has := min(pagesOf(int64(len(scratch))), cap(scratch))
	if m.keepWarm(class, scratch[:has]) {
		return
	}
	r := scratch[:cap(scratch)]
	// It fails on locked pages, which the next buffer overwrites.
	_ = unix.Madvise(r, unix.MADV_DONTNEED)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.spare[class] = append(m.spare[class], r)
	m.returned()
}

// keepWarm takes a range back with its pages, if there is room for them.
func (m *memory) keepWarm(class int, r []byte) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.warmed+len(r) > m.warmLimit {
		return false
	}
	m.warmed += len(r)
	m.warm[class] = append(m.warm[class], r)
	m.returned()
	return true
}

// returned counts a range that came back. The lock is held.
func (m *memory) returned() {
	m.lent--
	if m.closed {
		_ = m.unmapIfIdle() // of memory that this medium mapped
	}
}

// unmapIfIdle unmaps the chunks when no range is handed out. The lock is held.
func (m *memory) unmapIfIdle() error {
	if m.lent > 0 {
		return nil
	}
	chunks := m.chunks
	m.chunks, m.warmed = nil, 0
	m.warm, m.spare, m.fresh = [maxClass + 1][][]byte{}, [maxClass + 1][][]byte{}, [maxClass + 1][]byte{}
	for _, chunk := range chunks {
		if err := unix.Munmap(chunk); err != nil {
			return err
		}
	}
	return nil
}
