package fs

import (
	"sync"
	"sync/atomic"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// Names come with attributes for who wants them (listing_wishes.go): then no stat of
// these has to come to us. To tell attributes is to look names up, which reads headers
// that a plain listing does not need.
//
// The kernel asks for all names in this way (READDIRPLUS), and we say which ones have
// attributes. It could choose by itself, too (READDIRPLUS_AUTO), but knows less: it
// asks for none where one answer has followed another without a stat in between, and
// most programs read a folder whole before they stat anything.

// ReadDirPlus answers with names, and attributes where somebody wants them.
func (l *kernelLayer) ReadDirPlus(cancel <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	l.count(opReaddir)
	l.names.looksInto(in.NodeId)
	q := l.flight.begin(cancel, opReaddir)
	defer l.flight.end(cancel)
	v, ok := l.listings.Load(in.Fh)
	if !ok {
		return l.readDirBare(cancel, in, out)
	}
	of := v.(*listing)
	// An entry without a node number is a name without attributes.
	var named []namedEntry
	status := of.read(in.Offset, func(e listedEntry) bool {
		entry := out.AddDirLookupEntry(e.DirEntry)
		if entry == nil {
			return false
		}
		if e.Name != "." && e.Name != ".." {
			named = append(named, namedEntry{e, entry})
		}
		return true
	})
	if !status.Ok() || !of.told || len(named) == 0 {
		return status
	}
	wanted := l.wishes.attributes(in.Pid)
	if wanted {
		l.tellAttributes(cancel, in, of, q, named)
	}
	l.wishes.listed(in.Pid, in.NodeId, len(named), wanted)
	return status
}

// namedEntry is a place for what is told of a name.
type namedEntry struct {
	listedEntry
	out *fuse.EntryOut
}

// tellAttributes looks names up for an answer. Who has gone waits for no more.
func (l *kernelLayer) tellAttributes(cancel <-chan struct{}, in *fuse.ReadIn, of *listing, q *pending, named []namedEntry) {
	batch := of.batch(q)
	defer batch.close()
	var wg sync.WaitGroup
	var next atomic.Int64
	for range min(listWorkers, len(named)) {
		wg.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(named) {
					return
				}
				select {
				case <-cancel:
					return
				default:
					l.tell(cancel, in, batch, named[i])
				}
			}
		})
	}
	wg.Wait()
}

// tell looks a name up. Of one that fails nothing is told: a stat will.
func (l *kernelLayer) tell(cancel <-chan struct{}, in *fuse.ReadIn, batch *listingBatch, n namedEntry) {
	defer func() {
		if what := recover(); what != nil {
			l.panicked(what)
			*n.out = fuse.EntryOut{}
		}
	}()
	batch.find(n.listedEntry)
	header := in.InHeader
	if status := l.RawFileSystem.Lookup(cancel, &header, n.Name, n.out); !status.Ok() || n.out.NodeId == 0 {
		*n.out = fuse.EntryOut{}
		return
	}
	l.names.lookedUp(in.NodeId, n.Name, n.out)
	l.told.Add(1)
}

// The sizes of entries: a name takes at least bareEntryBytes, and with room for
// attributes attributesBytes more.
const (
	bareEntryBytes  = 32
	attributesBytes = 128
)

// readDirBare answers with names of a directory that go-fuse reads, without
// attributes: for those of epochs and shards much would have to be worked out. It
// asks for no more of them than there is room for with attributes.
func (l *kernelLayer) readDirBare(cancel <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	room := int(in.Size) / (1 + attributesBytes/bareEntryBytes)
	bare := fuse.NewDirEntryList(make([]byte, room), in.Offset)
	if status := l.RawFileSystem.ReadDir(cancel, in, bare); !status.Ok() {
		return status
	}
	entries, err := fuse.ParseDirEntries(bare.Bytes())
	if err != nil {
		return fuse.EIO
	}
	for _, e := range entries {
		if out.AddDirLookupEntry(e) == nil {
			return fuse.EIO
		}
	}
	return fuse.OK
}
