package fs

import (
	"sync/atomic"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// Where reads come to us, a file that is read once, in an epoch of a loader,
// would fill the kernel's page cache beside our buffer for nothing: fresh pages
// and a second copy cost a photograph a millisecond. So the first open of a file
// reads past the page cache (FOPEN_DIRECT_IO), straight from the buffer into the
// reader's memory and in larger requests. Whoever opens it again reads through
// the page cache, which serves all further reads without us.
//
// A reader of small pieces fares better with the page cache at once: there the
// kernel asks for more than it was asked for. So direct reads pause when one
// shows up.

const (
	// directPieceBytes is the size of the pieces in which a file may be read
	// without being called small, but for directExtraReads others: of headers
	// and of what is left at the end.
	directPieceBytes = 64 << 10
	directExtraReads = 4
	// directPauseOpens is how many opens a pause lasts.
	directPauseOpens = 256
)

// directReads says which opens read past the page cache.
type directReads struct {
	possible bool         // maps work on such handles (Linux 6.6)
	pause    atomic.Int64 // opens that are still to go through the page cache
}

// grant reports whether a first open is to be direct.
func (d *directReads) grant() bool {
	return d.possible && (d.pause.Load() <= 0 || d.pause.Add(-1) < 0)
}

// closed judges by the reads of a direct handle that was closed.
func (d *directReads) closed(reads, bytes int64) {
	if reads > bytes/directPieceBytes+directExtraReads {
		d.pause.Store(directPauseOpens)
	}
}

// mapsDirect reports whether the kernel maps files that are open for direct
// reads.
func mapsDirect(server *fuse.Server) bool {
	return server.KernelSettings().Flags64()&fuse.CAP_DIRECT_IO_ALLOW_MMAP != 0
}
