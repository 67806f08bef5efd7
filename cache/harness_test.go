package cache

import (
	"encoding/binary"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// unit is the charge of a buffer of one page: tests count budgets in it.
var unit = pageBytes + overheadBytes

// content of key: differs from key to key and from place to place.
func write(key int, dst []byte) {
	state := uint64(key)*0x9e3779b97f4a7c15 + 1
	for len(dst) >= 8 {
		binary.LittleEndian.PutUint64(dst, state)
		state = state*6364136223846793005 + 1442695040888963407
		dst = dst[8:]
	}
	for i := range dst {
		dst[i] = byte(state >> (8 * i))
	}
}

func fillOf(key int) func([]byte) error {
	return func(dst []byte) error { write(key, dst); return nil }
}

func expect(key int, size int64) []byte {
	b := make([]byte, size)
	write(key, b)
	return b
}

func never(t testing.TB) func([]byte) error {
	return func([]byte) error { t.Error("filled again"); return nil }
}

// mustGet gets key with its content.
func mustGet(t testing.TB, c *Cache[int], key int, size int64) *Buffer[int] {
	t.Helper()
	b, err := c.Get(key, size, fillOf(key))
	if err != nil {
		t.Fatalf("Get(%d): %v", key, err)
	}
	return b
}

// pass gets key and lets it go.
func pass(t testing.TB, c *Cache[int], key int, size int64) {
	t.Helper()
	mustGet(t, c, key, size).Unpin()
}

func newCache(t testing.TB, opt Options) *Cache[int] {
	t.Helper()
	if opt.Medium == nil {
		opt.Medium = NewMemory(warmBytes)
	}
	c, err := New[int](opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return c
}

// audit returns the first account that does not add up. Nothing may be running.
func (c *Cache[K]) audit() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var used, pinned, resident int64
	var idle [numShelves]int64
	var nPinned, descs int
	for key, b := range c.buffers {
		used += b.charge
		if b.pins > 0 {
			nPinned++
			pinned += b.charge
		} else {
			idle[b.shelf] += b.charge
		}
		if b.shelf == kept {
			resident += b.charge
		}
		for i, lru := range c.idle.lru {
			if want := b.pins == 0 && b.shelf == shelf(i); lru.Contains(key) != want {
				return fmt.Errorf("buffer with %d pins, of shelf %d: on shelf %d %v", b.pins, b.shelf, i, !want)
			}
		}
		if want := b.pins == 0 && b.content.fd >= 0; c.idle.open.Contains(key) != want {
			return fmt.Errorf("buffer with %d pins, descriptor %d: among the open ones %v", b.pins, b.content.fd, !want)
		}
		if b.content.fd >= 0 {
			descs++
		}
	}
	switch {
	case c.used != used:
		return fmt.Errorf("used is %d, buffers hold %d", c.used, used)
	case c.pinned != pinned || c.nPinned != nPinned:
		return fmt.Errorf("pinned is %d in %d buffers, should be %d in %d", c.pinned, c.nPinned, pinned, nPinned)
	case c.resident.bytes != resident:
		return fmt.Errorf("kept is %d, buffers with a place hold %d", c.resident.bytes, resident)
	case c.idle.bytes != idle:
		return fmt.Errorf("the shelves count %d bytes and hold %d", c.idle.bytes, idle)
	case c.descs != descs:
		return fmt.Errorf("descs is %d, buffers hold %d", c.descs, descs)
	case c.idle.len() != len(c.buffers)-nPinned:
		return fmt.Errorf("%d buffers in the LRU, %d are not pinned", c.idle.len(), len(c.buffers)-nPinned)
	case c.dying != 0 || c.wanted != 0 || len(c.flights) != 0:
		return fmt.Errorf("at rest: dying %d, wanted %d, %d fills", c.dying, c.wanted, len(c.flights))
	case c.used > c.limit():
		return fmt.Errorf("used is %d, the limit %d", c.used, c.limit())
	case c.used > c.opt.Budget && c.idle.len() > 0:
		return fmt.Errorf("used is %d of a budget of %d with %d buffers to evict", c.used, c.opt.Budget, c.idle.len())
	}
	return nil
}

func mustAddUp(t testing.TB, c *Cache[int]) {
	t.Helper()
	if err := c.audit(); err != nil {
		t.Fatal(err)
	}
}

// watched is a medium that counts what is out, and can be made to misbehave.
type watched struct {
	Medium
	mu           sync.Mutex
	scratches    int // handed out and neither published nor discarded
	contents     int // published and not freed
	publishFails int
	descriptors  int           // overrides maxDescriptors when not 0
	freeing      chan struct{} // each free takes one value first, when set
	closed       int
}

func (m *watched) count(scratches, contents int) {
	m.mu.Lock()
	m.scratches += scratches
	m.contents += contents
	m.mu.Unlock()
}

func (m *watched) scratch(size int64) ([]byte, error) {
	b, err := m.Medium.scratch(size)
	if err == nil {
		m.count(1, 0)
	}
	return b, err
}

func (m *watched) publish(filled []byte) (content, error) {
	c, err := m.Medium.publish(filled)
	if err == nil {
		m.count(-1, 1)
	} else {
		m.mu.Lock()
		m.publishFails++
		m.mu.Unlock()
	}
	return c, err
}

func (m *watched) discard(scratch []byte) {
	m.count(-1, 0)
	m.Medium.discard(scratch)
}

func (m *watched) free(c *content) {
	if m.freeing != nil {
		<-m.freeing
	}
	m.count(0, -1)
	m.Medium.free(c)
}

func (m *watched) maxDescriptors() int {
	if m.descriptors != 0 {
		return m.descriptors
	}
	return m.Medium.maxDescriptors()
}

func (m *watched) Close() error {
	m.mu.Lock()
	m.closed++
	m.mu.Unlock()
	return m.Medium.Close()
}

// out returns the scratch memories and contents that have not come back.
func (m *watched) out() (scratches, contents int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.scratches, m.contents
}

func (m *watched) failedPublishes() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.publishFails
}

// mustHold checks that exactly n contents and no scratch memory are out.
func (m *watched) mustHold(t testing.TB, n int) {
	t.Helper()
	if s, c := m.out(); s != 0 || c != n {
		t.Fatalf("%d scratch memories and %d contents are out, want 0 and %d", s, c, n)
	}
}

// kernel stands for what holds registered files: like FUSE it keeps a file
// open by a reference of its own.
type kernel struct {
	mu     sync.Mutex
	next   int32
	files  map[int32]int
	gone   map[int32]bool
	refuse func(n int32) bool // fails the n-th registration when it says so
	calls  int32
	lastFD int
	faults []string
}

func newKernel() *kernel { return &kernel{files: map[int32]int{}, gone: map[int32]bool{}} }

func (k *kernel) register(fd int) (int32, error) {
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.calls++
	k.lastFD = fd
	if k.refuse != nil && k.refuse(k.calls) {
		unix.Close(own)
		return 0, unix.EPERM
	}
	k.next++
	k.files[k.next] = own
	return k.next, nil
}

func (k *kernel) unregister(id int32) {
	k.mu.Lock()
	defer k.mu.Unlock()
	fd, ok := k.files[id]
	if !ok {
		k.faults = append(k.faults, fmt.Sprintf("unregistering %d, gone before: %v", id, k.gone[id]))
		return
	}
	unix.Close(fd)
	delete(k.files, id)
	k.gone[id] = true
}

func (k *kernel) held() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.files)
}

// read returns the content of b, from the kernel's side where that has it.
func (k *kernel) read(b *Buffer[int]) ([]byte, error) {
	p := make([]byte, b.Size())
	if b.BackingID() == 0 {
		return b.Slice(p, 0, len(p))
	}
	k.mu.Lock()
	fd, ok := k.files[b.BackingID()]
	k.mu.Unlock()
	if !ok {
		return nil, fmt.Errorf("no backing file %d", b.BackingID())
	}
	n, err := readFull(fd, p, 0)
	return p[:n], err
}

func (k *kernel) mustBeInOrder(t testing.TB, held int) {
	t.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, f := range k.faults {
		t.Error(f)
	}
	if len(k.files) != held {
		t.Fatalf("%d files are registered, want %d", len(k.files), held)
	}
}

// newTmpfs skips where the kernel allows no private tmpfs.
func newTmpfs(t testing.TB, size int64) Medium {
	t.Helper()
	m, err := NewTmpfs(size)
	if err != nil {
		t.Skipf("no private tmpfs here (CAP_SYS_ADMIN and Linux 5.2 are needed): %v", err)
	}
	return m
}

// eachMedium runs test with every medium; size limits the tmpfs.
func eachMedium(t *testing.T, size int64, test func(t *testing.T, m Medium)) {
	t.Run("tmpfs", func(t *testing.T) { test(t, newTmpfs(t, size)) })
	t.Run("memfd", func(t *testing.T) { test(t, NewMemfd()) })
	t.Run("memory", func(t *testing.T) { test(t, NewMemory(warmBytes)) })
}

// The first timer opens the two descriptors of Go's poller, which no test
// should find among its own.
var _ = time.AfterFunc(0, func() {})

// openDescriptors counts those of this process, so no test may run beside one
// that uses it.
func openDescriptors(t testing.TB) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}
