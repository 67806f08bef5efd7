package cache

import (
	"fmt"
	"io"

	"golang.org/x/sys/unix"
)

// Buffer is the content of one virtual file: immutable, pinned while somebody
// holds it.
type Buffer[K comparable] struct {
	cache     *Cache[K]
	key       K
	size      int64
	charge    int64
	content   content
	backingID int32

	// Protected by cache.mu.
	pins  int
	shelf shelf // where it stands, or will when the last pin ends
	used  int64 // when the last pin ended, under policy Pin
}

// Size returns the length in bytes.
func (b *Buffer[K]) Size() int64 { return b.size }

// BackingID returns the number under which the kernel knows the buffer's file,
// 0 when it does not. It is the same for the buffer's life. A buffer that has
// one cannot be read here.
func (b *Buffer[K]) BackingID() int32 { return b.backingID }

// Pin takes another pin of a buffer that the caller has pinned. Unpin ends it.
func (b *Buffer[K]) Pin() {
	b.cache.mu.Lock()
	defer b.cache.mu.Unlock()
	if b.pins == 0 {
		panic("cache: Pin of a buffer that is not pinned")
	}
	b.pins++
}

// HoldsDescriptor reports whether the buffer's file is open here, as it is where
// the kernel did not take it.
func (b *Buffer[K]) HoldsDescriptor() bool { return b.content.fd >= 0 }

// Unpin ends a pin that Get or Pin gave.
func (b *Buffer[K]) Unpin() { b.cache.unpin(b) }

// Spend says that, as far as anybody knows, the buffer has been read for the last
// time: when room is needed it goes before all that were not spent, but not
// before that. A Get afterwards takes it back. Under policy Pin it does nothing
// to a buffer that has a place.
func (b *Buffer[K]) Spend() {
	b.cache.mu.Lock()
	defer b.cache.mu.Unlock()
	b.cache.spend(b)
}

// Slice returns the n bytes at off, fewer at the end, none past it. Memory
// media return the buffer's own memory, valid while it is pinned; file media
// read into scratch, which must have n bytes.
func (b *Buffer[K]) Slice(scratch []byte, off int64, n int) ([]byte, error) {
	if off < 0 || n < 0 {
		return nil, fmt.Errorf("reading %d bytes of a buffer at offset %d", n, off)
	}
	if off >= b.size {
		return nil, nil
	}
	n = int(min(int64(n), b.size-off))
	if b.content.mem != nil {
		return b.content.mem[off : off+int64(n) : off+int64(n)], nil
	}
	if b.content.fd < 0 {
		return nil, fmt.Errorf("reading a buffer that the kernel serves")
	}
	got, err := readFull(b.content.fd, scratch[:n], off)
	return scratch[:got], err
}

// readFull reads len(p) bytes at off; less is an error, since a buffer's size
// never changes.
func readFull(fd int, p []byte, off int64) (int, error) {
	done := 0
	for done < len(p) {
		n, err := unix.Pread(fd, p[done:], off+int64(done))
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return done, fmt.Errorf("reading a cached file: %w", err)
		}
		if n == 0 {
			return done, io.ErrUnexpectedEOF
		}
		done += n
	}
	return done, nil
}
