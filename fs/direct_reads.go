package fs

import (
	"sync/atomic"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// Where reads come to us, a file that is read once, in an epoch of a loader,
// would fill the kernel's page cache beside our buffer for nothing: fresh pages
// and a second copy cost two to four times what reading takes. So the first open of
// a file reads past the page cache (FOPEN_DIRECT_IO), straight from the buffer into the
// reader's memory and in larger requests. Whoever opens it again reads through
// the page cache, which serves all further reads without us, in half the time.
//
// There are two exceptions. A reader of small pieces fares better with the page cache
// at once: there the kernel asks for more than it was asked for. So direct reads pause
// when one shows up. And where files are read over and over, but have lost their
// pages each time they are opened again, because they are more than there is
// memory for, the second open and all others are direct, too: pages that nobody finds
// again push out what is of use, the packed files among it.

const (
	// directPieceBytes is the size of the pieces in which a file may be read
	// without being called small, but for directExtraReads others: of headers
	// and of what is left at the end.
	directPieceBytes = 64 << 10
	directExtraReads = 4
	// directPauseOpens is how many opens a pause lasts.
	directPauseOpens = 256
	// directLosses: so many files more must have lost their pages than kept them before
	// opens of known files are direct, and directAgainOpens is how many are, before it is
	// tried again whether pages stay.
	directLosses     = 8
	directAgainOpens = 1024
)

// directReads says which opens read past the page cache.
type directReads struct {
	possible bool         // maps work on such handles (Linux 6.6)
	pause    atomic.Int64 // opens that are still to go through the page cache
	again    atomic.Int64 // opens of known files that are still to be direct
	losses   atomic.Int64 // files that had lost their pages, less those that had kept them
}

// grant reports whether an open is to be direct: of a file that was open before,
// and one that was mapped then. A map of a direct handle throws away the pages that
// are there.
func (d *directReads) grant(known, mapped bool) bool {
	if !d.possible || known && (mapped || !countDown(&d.again)) {
		return false
	}
	return !countDown(&d.pause)
}

// countDown reports whether there was something left.
func countDown(n *atomic.Int64) bool { return n.Load() > 0 && n.Add(-1) >= 0 }

// closed judges by the reads of a direct handle that was closed.
func (d *directReads) closed(reads, bytes int64) {
	if reads > bytes/directPieceBytes+directExtraReads {
		d.pause.Store(directPauseOpens)
	}
}

// found is told of a file that was opened after its pages had been filled, and read:
// whether it had them still.
func (d *directReads) found(pages bool) {
	switch losses := d.losses.Load(); {
	case !pages && losses+1 >= directLosses:
		d.losses.Store(0)
		d.again.Store(directAgainOpens)
	case !pages:
		d.losses.Add(1)
	case losses > 0:
		d.losses.Add(-1)
	}
}

// mapsDirect reports whether the kernel maps files that are open for direct
// reads.
func mapsDirect(server *fuse.Server) bool {
	return server.KernelSettings().Flags64()&fuse.CAP_DIRECT_IO_ALLOW_MMAP != 0
}
