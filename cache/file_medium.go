package cache

import (
	"fmt"
	"io"
	"math"
	"sync"

	"golang.org/x/sys/unix"
)

// files is a medium whose buffers are unnamed files, each written by one pwrite
// from pooled scratch memory. Writing is what makes fresh pages cheap: a page
// that is faulted in through a mapping is zeroed first and costs a trap.
type files struct {
	name   string
	create func() (int, error)
	close  func() error
	pool   scratchPool

	// mu keeps create from using a descriptor that close gave up: its number
	// may belong to another folder by then.
	mu     sync.RWMutex
	closed bool
}

func (m *files) Name() string { return m.name }

func (m *files) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil
	}
	m.closed = true
	return m.close()
}

func (m *files) open() (int, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.closed {
		return -1, ErrClosed
	}
	return m.create()
}

func (m *files) scratch(size int64) ([]byte, error) { return m.pool.get(size) }
func (m *files) discard(scratch []byte)             { m.pool.put(scratch) }
func (m *files) free(c *content)                    { c.closeFD() }

func (m *files) publish(filled []byte) (content, error) {
	fd, err := m.open()
	if err != nil {
		return content{}, err
	}
	if err := writeFull(fd, filled); err != nil {
		unix.Close(fd)
		return content{}, fmt.Errorf("writing %d bytes to the %s cache: %w", len(filled), m.name, err)
	}
	m.pool.put(filled)
	return content{fd: fd}, nil
}

// writeFull writes p at the start of a file. A full tmpfs shows as a short
// write first and as ENOSPC next.
func writeFull(fd int, p []byte) error {
	for off := 0; off < len(p); {
		n, err := unix.Pwrite(fd, p[off:], int64(off))
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.ENOSPC || err == unix.ENOMEM:
			return fmt.Errorf("%w: %w", ErrNoSpace, err)
		case err != nil:
			return err
		case n == 0:
			return io.ErrShortWrite
		}
		off += n
	}
	return nil
}

// maxDescriptors leaves half of the process's limit to everything else.
func (m *files) maxDescriptors() int {
	var lim unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &lim); err != nil {
		return 128
	}
	return int(min(lim.Cur/2, math.MaxInt32))
}

// NewTmpfs returns a medium of unnamed files on a tmpfs that is mounted
// nowhere and limited to size bytes. Large folios make it faster than an
// ordinary tmpfs. It needs CAP_SYS_ADMIN and Linux 5.2.
func NewTmpfs(size int64) (Medium, error) {
	if size <= 0 { // to tmpfs, size=0 is no limit
		return nil, fmt.Errorf("private tmpfs of %d bytes", size)
	}
	ctx, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("fsopen of a private tmpfs: %w", err)
	}
	defer unix.Close(ctx)
	for _, o := range []struct {
		key, value string
		needed     bool
	}{
		{"size", fmt.Sprint(size), true},
		{"nr_inodes", "0", true}, // buffers are bounded by bytes
		{"mode", "0700", true},
		{"huge", "within_size", false}, // absent without transparent huge pages
	} {
		if err := unix.FsconfigSetString(ctx, o.key, o.value); err != nil && o.needed {
			return nil, fmt.Errorf("setting %s=%s of a private tmpfs: %w", o.key, o.value, err)
		}
	}
	if err := unix.FsconfigCreate(ctx); err != nil {
		return nil, fmt.Errorf("creating a private tmpfs: %w", err)
	}
	mnt, err := unix.Fsmount(ctx, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC)
	if err != nil {
		return nil, fmt.Errorf("fsmount of a private tmpfs: %w", err)
	}
	return &files{
		name: "tmpfs",
		create: func() (int, error) {
			fd, err := unix.Openat(mnt, ".", unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
			if err != nil {
				return -1, fmt.Errorf("creating a file on the private tmpfs: %w", err)
			}
			return fd, nil
		},
		close: func() error { return unix.Close(mnt) },
	}, nil
}

// NewMemfd returns a medium of memfds, for kernels or containers without
// fsopen. Its pages are small, so filling and mapping are slower.
func NewMemfd() Medium {
	return &files{
		name: "memfd",
		create: func() (int, error) {
			fd, err := unix.MemfdCreate("prismfs", unix.MFD_CLOEXEC|unix.MFD_NOEXEC_SEAL)
			if err == unix.EINVAL { // before Linux 6.3
				fd, err = unix.MemfdCreate("prismfs", unix.MFD_CLOEXEC)
			}
			if err != nil {
				return -1, fmt.Errorf("creating a memfd: %w", err)
			}
			return fd, nil
		},
		close: func() error { return nil },
	}
}

// scratchPool holds memory of running fills by power-of-two size, so that the
// hot path allocates nothing of the buffer's size. Large scratch memory is mapped
// by itself and given back: the heap would keep it, rounded up, until two
// collections later, and a few images of 100 MB are what a container has.
type scratchPool struct {
	classes [maxClass + 1]sync.Pool
}

// largeScratch is from where decoding takes so much longer than mapping that
// pooling gains nothing.
const largeScratch = 16 << 20

func (p *scratchPool) get(size int64) ([]byte, error) {
	if size < 0 || size > 1<<maxClass {
		return nil, unix.ENOMEM
	}
	if size > largeScratch {
		b, err := unix.Mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_NORESERVE)
		if err == nil {
			_ = unix.Madvise(b, unix.MADV_HUGEPAGE) // it fails where the kernel has none
		}
		return b, err
	}
	class := classOf(size)
	if b, ok := p.classes[class].Get().(*[]byte); ok {
		return (*b)[:size], nil
	}
	return make([]byte, size, 1<<class), nil
}

func (p *scratchPool) put(b []byte) {
	if cap(b) > largeScratch {
		_ = unix.Munmap(b[:cap(b)]) // what get mapped
		return
	}
	b = b[:0]
	p.classes[classOf(int64(cap(b)))].Put(&b)
}
