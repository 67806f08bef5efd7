package cache

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

func TestMediaGiveTheSameBytes(t *testing.T) {
	sizes := []int64{0, 1, 777, 12288 + 128, 1_200_000}
	eachMedium(t, 8<<20, func(t *testing.T, m Medium) {
		for _, registered := range []bool{false, true} {
			k := newKernel()
			opt := Options{Budget: 4 << 20, Medium: m}
			if registered {
				opt.Register, opt.Unregister = k.register, k.unregister
			}
			c, err := New[int](opt)
			if err != nil {
				t.Fatal(err)
			}
			for key, size := range sizes {
				b := mustGet(t, c, key, size)
				got, err := k.read(b)
				if err != nil || !bytes.Equal(got, expect(key, size)) {
					t.Errorf("registered=%v: %d bytes differ (%v)", registered, size, err)
				}
				b.Unpin()
			}
			for _, b := range c.buffers { // Close would close the medium too
				c.free(b)
			}
			k.mustBeInOrder(t, 0)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestMediumNames(t *testing.T) {
	eachMedium(t, 1<<20, func(t *testing.T, m Medium) {
		defer m.Close()
		if want := t.Name()[len("TestMediumNames/"):]; m.Name() != want {
			t.Errorf("name %q, want %q", m.Name(), want)
		}
		if n := m.maxDescriptors(); n < 64 {
			t.Errorf("at most %d descriptors", n)
		}
	})
}

func TestTmpfsOfNoSize(t *testing.T) {
	for _, size := range []int64{0, -1} {
		if m, err := NewTmpfs(size); err == nil {
			m.Close()
			t.Errorf("a tmpfs of %d bytes was made: it would be without limit", size)
		}
	}
}

// A registered buffer's descriptor is closed at once; it is registered once
// and unregistered once, when it is evicted.
func TestRegistrationLastsAsLongAsTheBuffer(t *testing.T) {
	before := openDescriptors(t)
	k := newKernel()
	c := newCache(t, Options{Budget: 3 * unit, Medium: NewMemfd(), Register: k.register, Unregister: k.unregister})
	ids := map[int32]bool{}
	for key := range 10 {
		b := mustGet(t, c, key, pageBytes)
		if _, err := unix.FcntlInt(uintptr(k.lastFD), unix.F_GETFD, 0); err != unix.EBADF {
			t.Fatalf("the descriptor of a registered file is still open (%v)", err)
		}
		if b.BackingID() == 0 || ids[b.BackingID()] {
			t.Fatalf("backing id %d, after %v", b.BackingID(), ids)
		}
		ids[b.BackingID()] = true
		if _, err := b.Slice(make([]byte, 1), 0, 1); err == nil {
			t.Error("a buffer that the kernel serves was read")
		}
		b.Unpin()
		again, err := c.Get(key, pageBytes, never(t))
		if err != nil || again.BackingID() != b.BackingID() {
			t.Fatalf("a hit has backing id %d, not %d (%v)", again.BackingID(), b.BackingID(), err)
		}
		again.Unpin()
		if held := min(key+1, 3); k.held() != held || openDescriptors(t) != before+held {
			t.Fatalf("%d registered, %d descriptors above the start; want %d", k.held(), openDescriptors(t)-before, held)
		}
	}
	if k.calls != 10 {
		t.Errorf("%d registrations of 10 buffers", k.calls)
	}
	mustAddUp(t, c)
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	k.mustBeInOrder(t, 0)
}

func TestRefusedRegistrationStaysReadable(t *testing.T) {
	for name, register := range map[string]func(int) (int32, error){
		"error":       func(int) (int32, error) { return 0, unix.EPERM },
		"error, id":   func(int) (int32, error) { return 9, unix.EPERM },
		"panic":       func(int) (int32, error) { panic("ioctl bug") },
		"no id":       func(int) (int32, error) { return 0, nil },
		"negative id": func(int) (int32, error) { return -1, nil },
	} {
		t.Run(name, func(t *testing.T) {
			before := openDescriptors(t)
			unregister := func(id int32) { t.Errorf("%d was unregistered", id) }
			c := newCache(t, Options{Budget: 3 * unit, Medium: NewMemfd(), Register: register, Unregister: unregister})
			for key := range 6 {
				b := mustGet(t, c, key, pageBytes)
				got, err := b.Slice(make([]byte, pageBytes), 0, int(pageBytes))
				if err != nil || !bytes.Equal(got, expect(key, pageBytes)) || b.BackingID() != 0 {
					t.Fatalf("a buffer that was refused reads wrong (%v), backing id %d", err, b.BackingID())
				}
				b.Unpin()
				mustAddUp(t, c)
			}
			if s := c.Stats(); s.RegisterFailures != 6 || s.Buffers != 3 {
				t.Errorf("stats %+v", s)
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			if after := openDescriptors(t); after != before {
				t.Errorf("%d descriptors before, %d after", before, after)
			}
		})
	}
}

func TestDescriptorsAreBounded(t *testing.T) {
	before := openDescriptors(t)
	m := &watched{Medium: NewMemfd(), descriptors: 4}
	c := newCache(t, Options{Budget: 1 << 20, Medium: m})
	for key := range 20 {
		pass(t, c, key, 1)
		if c.descs > 4 || openDescriptors(t) > before+4 {
			t.Fatalf("%d descriptors are held", c.descs)
		}
	}
	var pins []*Buffer[int]
	for key := 20; key < 26; key++ { // pins need theirs
		pins = append(pins, mustGet(t, c, key, 1))
		mustAddUp(t, c)
	}
	for _, b := range pins {
		b.Unpin()
	}
	pass(t, c, 26, 1)
	if n := openDescriptors(t) - before; n != 4 {
		t.Errorf("%d descriptors are held after the pins ended, want 4", n)
	}
	mustAddUp(t, c)
}

// tmpfsInUse returns the bytes of pages that the private tmpfs holds; a file of
// it is all that a statfs needs.
func tmpfsInUse(t testing.TB, m Medium) func() int64 {
	t.Helper()
	probe, err := m.(*files).open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(probe) })
	return func() int64 {
		var s unix.Statfs_t
		if err := unix.Fstatfs(probe, &s); err != nil {
			t.Fatal(err)
		}
		return int64(s.Blocks-s.Bfree) * s.Bsize
	}
}

func TestTmpfsMemoryIsGivenBack(t *testing.T) {
	m := newTmpfs(t, 16<<20)
	inUse := tmpfsInUse(t, m)
	k := newKernel()
	c := newCache(t, Options{Budget: 16 << 20, Medium: m, Register: k.register, Unregister: k.unregister})
	for key := range 30 {
		pass(t, c, key, int64(key+1)*60_000)
		s := c.Stats()
		pages := s.Bytes - int64(s.Buffers)*overheadBytes
		if inUse() != pages {
			t.Fatalf("the tmpfs holds %d bytes, the cache was charged for %d", inUse(), pages)
		}
	}
	if c.Stats().Evictions == 0 {
		t.Error("nothing was evicted")
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if inUse() != 0 {
		t.Errorf("after Close the tmpfs holds %d bytes", inUse())
	}
}

func TestMemfdMemoryIsGivenBack(t *testing.T) {
	before := openDescriptors(t)
	c := newCache(t, Options{Budget: 10 * unit, Medium: NewMemfd()})
	for key := range 100 {
		pass(t, c, key, pageBytes)
		if n := openDescriptors(t) - before; n != min(key+1, 10) {
			t.Fatalf("%d memfds after %d buffers", n, key+1)
		}
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if after := openDescriptors(t); after != before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}

// residentPages returns how many pages of mem have memory, -1 when it is not
// mapped.
func residentPages(t testing.TB, mem []byte) int {
	t.Helper()
	pages := make([]byte, (int64(len(mem))+pageBytes-1)/pageBytes)
	_, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&mem[0])), uintptr(len(mem)), uintptr(unsafe.Pointer(&pages[0])))
	if errno == unix.ENOMEM {
		return -1
	}
	if errno != 0 {
		t.Fatal(errno)
	}
	n := 0
	for _, p := range pages {
		n += int(p & 1)
	}
	return n
}

func TestPlainMemoryIsGivenBack(t *testing.T) {
	const size = 300_000 // 74 pages in a range of 128
	c := newCache(t, Options{Budget: 1 << 20, Medium: &memory{}})
	b := mustGet(t, c, 0, size)
	mem := b.content.mem[:cap(b.content.mem)]
	if n := residentPages(t, mem); int64(n) != (size+pageBytes-1)/pageBytes {
		t.Errorf("%d pages hold %d bytes", n, size)
	}
	b.Unpin()
	pass(t, c, 1, 900_000)
	if c.Holds(0) {
		t.Fatal("not evicted")
	}
	if n := residentPages(t, mem); n != 0 {
		t.Errorf("%d pages of an evicted buffer are still held", n)
	}
	if _, err := c.Get(2, 1000, func([]byte) error { return errFill }); err != errFill {
		t.Fatal(err)
	}
	next := mustGet(t, c, 3, size) // has the address of the first
	if &next.content.mem[0] != &mem[0] {
		t.Error("a freed range was not used again")
	}
	next.Unpin()
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if n := residentPages(t, mem); n != -1 {
		t.Errorf("still mapped after Close, %d pages", n)
	}
}

// A few freed ranges keep their pages for the next buffers, which get no more
// of them than they are charged for.
func TestPlainMemoryStaysWarm(t *testing.T) {
	const size = 100_000 // 25 pages in a range of 32
	m := &memory{warmLimit: pagesOf(size)}
	first, err := m.scratch(size)
	if err != nil {
		t.Fatal(err)
	}
	second, err := m.scratch(size)
	if err != nil {
		t.Fatal(err)
	}
	m.discard(first)
	m.discard(second)
	if warm, cold := residentPages(t, first), residentPages(t, second); warm != 25 || cold != 0 {
		t.Errorf("%d and %d pages of the freed ranges are held, want 25 and 0", warm, cold)
	}
	smaller, err := m.scratch(70_000)
	if err != nil {
		t.Fatal(err)
	}
	if &smaller[0] != &first[0] {
		t.Error("the warm range was not used first")
	}
	if n := residentPages(t, first); n != 18 {
		t.Errorf("a buffer of 18 pages holds %d", n)
	}
	m.discard(smaller)
	larger, err := m.scratch(130_000)
	if err != nil {
		t.Fatal(err)
	}
	clear(larger)
	if n := residentPages(t, larger); n != 32 {
		t.Errorf("a buffer of 32 pages holds %d", n)
	}
	m.discard(larger)
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}

// A range that comes back after Close takes the mappings with it.
func TestPlainMemoryOutlivesCloseWhileInUse(t *testing.T) {
	m := NewMemory(warmBytes)
	s, err := m.scratch(10)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	mem := s[:cap(s)]
	s[0] = 1
	if n := residentPages(t, mem); n != 1 {
		t.Errorf("%d pages of memory in use after Close", n)
	}
	m.discard(s)
	if n := residentPages(t, mem); n != -1 {
		t.Errorf("still mapped, %d pages", n)
	}
	if _, err := m.scratch(10); err != ErrClosed {
		t.Errorf("memory of a closed medium: %v", err)
	}
}

func TestNoFileAfterClose(t *testing.T) {
	eachMedium(t, 1<<20, func(t *testing.T, m Medium) {
		if m.Name() == "memory" {
			t.Skip("memory has no files")
		}
		s, err := m.scratch(10)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := m.Close(); err != nil {
				t.Error(err)
			}
		}
		if _, err := m.publish(s); err != ErrClosed {
			t.Errorf("a file was made after Close: %v", err)
		}
	})
}

func TestImpossibleScratch(t *testing.T) {
	eachMedium(t, 1<<20, func(t *testing.T, m Medium) {
		defer m.Close()
		for _, size := range []int64{-1, 1<<maxClass + 1, 1 << 62} {
			if _, err := m.scratch(size); err == nil {
				t.Errorf("%d bytes of memory were given", size)
			}
		}
	})
}

// A tmpfs that is smaller than the budget: what does not fit is ErrNoSpace
// while others are in use, nothing of it stays, and the rest goes on.
func TestFullTmpfs(t *testing.T) {
	const size = 8 << 12
	m := newTmpfs(t, size)
	inUse := tmpfsInUse(t, m)
	w := &watched{Medium: m}
	before := openDescriptors(t)
	c := newCache(t, Options{Budget: 1 << 30, Medium: w, MaxWait: 50 * time.Millisecond})
	if _, err := c.Get(0, 2*size, fillOf(0)); !errors.Is(err, ErrNoSpace) || !errors.Is(err, unix.ENOSPC) {
		t.Errorf("larger than the tmpfs: %v", err)
	}
	if inUse() != 0 {
		t.Errorf("%d bytes stay of a file that did not fit", inUse())
	}
	var pins []*Buffer[int]
	for key := range 3 {
		pins = append(pins, mustGet(t, c, key, size/4))
	}
	held := inUse()
	for range 3 {
		if _, err := c.Get(9, size/2, fillOf(9)); !errors.Is(err, ErrNoSpace) {
			t.Errorf("beside what is pinned: %v", err)
		}
		if inUse() != held || openDescriptors(t) != before+3 {
			t.Errorf("%d bytes and %d descriptors stay of a file that did not fit", inUse()-held, openDescriptors(t)-before-3)
		}
		mustAddUp(t, c)
		w.mustHold(t, 3)
	}
	pins[0].Unpin()
	b := mustGet(t, c, 9, size/2) // evicts what nobody uses, although the budget is not used up
	if c.Holds(0) || !c.Holds(1) {
		t.Errorf("cached %v, the first should have gone", cached(c, 10))
	}
	for _, p := range append(pins[1:], b) {
		p.Unpin()
	}
	mustAddUp(t, c)
}

// A pin that ends makes room in a full tmpfs for who waits.
func TestFullTmpfsWaitsForAPin(t *testing.T) {
	m := &watched{Medium: newTmpfs(t, 4*pageBytes)}
	c := newCache(t, Options{Budget: 1 << 30, Medium: m, MaxWait: time.Hour})
	first := mustGet(t, c, 0, 3*pageBytes)
	done := make(chan *Buffer[int])
	go func() {
		b, err := c.Get(1, 2*pageBytes, fillOf(1))
		if err != nil {
			t.Error(err)
		}
		done <- b
	}()
	for m.failedPublishes() == 0 {
		time.Sleep(time.Millisecond)
	}
	first.Unpin()
	if b := <-done; b != nil {
		b.Unpin()
	}
	mustAddUp(t, c)
}

// Pages of a file that was given back may stay until its last reader has really
// closed it. Who needs the room waits for that, though nobody tells when it is.
func TestFullTmpfsWaitsForTheKernel(t *testing.T) {
	const size = 8 << 12
	m := &watched{Medium: newTmpfs(t, size)}
	k := newKernel()
	c := newCache(t, Options{Budget: size + 4*overheadBytes, Medium: m, Register: k.register, Unregister: k.unregister, MaxWait: time.Hour})
	b := mustGet(t, c, 0, size/2)
	late, err := unix.Mmap(k.files[b.BackingID()], 0, size/2, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	b.Unpin()
	done := make(chan error)
	go func() {
		b, err := c.Get(1, size, fillOf(1))
		if err == nil {
			b.Unpin()
		}
		done <- err
	}()
	for m.failedPublishes() < 3 {
		time.Sleep(time.Millisecond)
	}
	if err := unix.Munmap(late); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	mustAddUp(t, c)
}

// A reader may close a file and keep it mapped: its pages stay, though nobody
// holds a pin. The cache must go on beside them.
func TestMappedPagesOutliveTheirBuffer(t *testing.T) {
	const size = 16 << 12
	m := newTmpfs(t, size)
	inUse := tmpfsInUse(t, m)
	k := newKernel()
	c := newCache(t, Options{Budget: size + 4*overheadBytes, Medium: m, Register: k.register, Unregister: k.unregister, MaxWait: time.Second})
	b := mustGet(t, c, 0, size/2)
	mapped, err := unix.Mmap(k.files[b.BackingID()], 0, size/2, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	b.Unpin()
	for key := 1; key < 30; key++ {
		pass(t, c, key, size/4)
		mustAddUp(t, c)
	}
	if c.Holds(0) || inUse() < size/2 {
		t.Fatal("the mapped buffer was not evicted, or not kept by the kernel")
	}
	if !bytes.Equal(mapped, expect(0, size/2)) {
		t.Error("mapped pages changed")
	}
	if err := unix.Munmap(mapped); err != nil {
		t.Fatal(err)
	}
	if inUse() > size/2 {
		t.Errorf("%d bytes are held after the mapping ended", inUse())
	}
}

// What sits in a pipe is the page itself. It must keep its bytes when the
// buffer is evicted and the cache filled with others.
func TestSplicedPagesOutliveTheirBuffer(t *testing.T) {
	const size = 64 << 10
	ways := map[string]func(t *testing.T, k *kernel, b *Buffer[int], pipe int) int64{
		"splice": func(t *testing.T, k *kernel, b *Buffer[int], pipe int) int64 {
			fd := b.content.fd
			if b.BackingID() != 0 {
				fd = k.files[b.BackingID()]
			}
			var off int64
			n, err := unix.Splice(fd, &off, pipe, nil, size, 0)
			if err != nil {
				t.Fatal(err)
			}
			return n
		},
		"vmsplice": func(t *testing.T, k *kernel, b *Buffer[int], pipe int) int64 {
			fd := b.content.fd
			if b.BackingID() != 0 {
				fd = k.files[b.BackingID()]
			}
			mem, err := unix.Mmap(fd, 0, size, unix.PROT_READ, unix.MAP_SHARED)
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := unix.Munmap(mem); err != nil {
					t.Error(err)
				}
			}()
			n, err := unix.Vmsplice(pipe, []unix.Iovec{{Base: &mem[0], Len: size}}, 0)
			if err != nil {
				t.Fatal(err)
			}
			return int64(n)
		},
	}
	eachMedium(t, 4*size, func(t *testing.T, m Medium) {
		if m.Name() == "memory" {
			t.Skip("there is no file to send: readers have copies")
		}
		for way, send := range ways {
			for _, registered := range []bool{false, true} {
				k := newKernel()
				opt := Options{Budget: 2*size + 4*overheadBytes, PinAllowance: size, Medium: m, MaxWait: time.Second}
				if registered {
					opt.Register, opt.Unregister = k.register, k.unregister
				}
				c, err := New[int](opt)
				if err != nil {
					t.Fatal(err)
				}
				what := fmt.Sprintf("%s, registered=%v", way, registered)
				pipe := make([]int, 2)
				if err := unix.Pipe2(pipe, unix.O_CLOEXEC); err != nil {
					t.Fatal(err)
				}
				b := mustGet(t, c, 0, size)
				n := send(t, k, b, pipe[1])
				if n == 0 {
					t.Fatalf("%s: nothing was sent", what)
				}
				b.Unpin()
				for key := 1; key < 20; key++ {
					pass(t, c, key, size)
				}
				if c.Holds(0) {
					t.Fatalf("%s: not evicted", what)
				}
				got := make([]byte, n)
				if r, err := unix.Read(pipe[0], got); err != nil || int64(r) != n {
					t.Fatalf("%s: read %d of %d: %v", what, r, n, err)
				}
				if !bytes.Equal(got, expect(0, size)[:n]) {
					t.Errorf("%s: the pipe gave other bytes after the buffer was evicted", what)
				}
				unix.Close(pipe[0])
				unix.Close(pipe[1])
				for _, b := range c.buffers { // Close would close the medium too
					c.free(b)
				}
			}
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
}

// Mappings are few whatever is cached: a process may have 65,530, and Go dies
// with the next.
func TestPlainMemoryNeedsFewMappings(t *testing.T) {
	m := NewMemory(warmBytes)
	c := newCache(t, Options{Budget: 1 << 30, Medium: m})
	for key := range 30_000 {
		b, err := c.Get(key, 100, func(dst []byte) error { dst[0] = 1; return nil })
		if err != nil {
			t.Fatal(err)
		}
		b.Unpin()
	}
	if n := len(m.(*memory).chunks); n != 30_000*4096/chunkBytes+1 {
		t.Errorf("30,000 buffers in %d mappings", n)
	}
}
