package cache

import (
	"math/bits"

	"golang.org/x/sys/unix"
)

// Medium is where buffers live. There are three: NewTmpfs, NewMemfd and
// NewMemory.
type Medium interface {
	// Name is tmpfs, memfd or memory.
	Name() string
	// Close gives up what the medium holds beside its buffers.
	Close() error

	// scratch returns size bytes to be filled.
	scratch(size int64) ([]byte, error)
	// publish makes an immutable content of filled scratch memory, which
	// belongs to the medium again. On an error it stays the caller's; the
	// error is ErrNoSpace where the medium is full.
	publish(filled []byte) (content, error)
	// discard takes scratch memory back that will not be published.
	discard(scratch []byte)
	// free gives a content's memory back to the kernel.
	free(c *content)
	// maxDescriptors is how many descriptors idle buffers may hold.
	maxDescriptors() int
}

// content is a published buffer's memory: a file (fd ≥ 0, or -1 once the kernel
// holds it) or mapped memory.
type content struct {
	fd  int
	mem []byte
}

func (c *content) closeFD() {
	if c.fd >= 0 {
		unix.Close(c.fd)
		c.fd = -1
	}
}

// maxClass is the binary logarithm of the largest buffer.
const maxClass = 46

// classOf returns the binary logarithm of the smallest power of two that holds
// size bytes and a page.
func classOf(size int64) int { return bits.Len64(uint64(max(size, pageBytes) - 1)) }
