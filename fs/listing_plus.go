package fs

import (
	"sync"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// ls -l reads some names of a folder, stats each, and reads the next ones. The
// kernel then asks for names with attributes (READDIRPLUS), so that no stat of
// these has to come to us. To tell attributes is to look names up, which reads
// headers that a plain listing does not need. So it is done for those alone who
// have looked names up since they last read some. That is what the kernel asks
// by, but for the beginning of a folder, where it always does: there nobody can
// have wanted attributes yet, and names come without.

// ReadDirPlus answers with names, and attributes where somebody wants them.
func (l *kernelLayer) ReadDirPlus(cancel <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	l.count(opReaddir)
	l.flight.begin(cancel, opReaddir)
	defer l.flight.end(cancel)
	of, ok := l.listings.Load(in.Fh)
	if !ok {
		return l.readDirBare(cancel, in, out)
	}
	// An entry without a node number is a name without attributes.
	var named []namedEntry
	status := of.(*listing).read(in.Offset, func(e fuse.DirEntry) bool {
		entry := out.AddDirLookupEntry(e)
		if entry == nil {
			return false
		}
		if e.Name != "." && e.Name != ".." {
			named = append(named, namedEntry{e.Name, entry})
		}
		return true
	})
	if status.Ok() && in.Offset > 0 && of.(*listing).told {
		l.tellAttributes(cancel, in, named)
	}
	return status
}

// namedEntry is a place for what is told of a name.
type namedEntry struct {
	name  string
	entry *fuse.EntryOut
}

// tellAttributes looks names up for an answer. Who has gone waits for no more.
func (l *kernelLayer) tellAttributes(cancel <-chan struct{}, in *fuse.ReadIn, named []namedEntry) {
	var wg sync.WaitGroup
	workers := min(listWorkers, len(named))
	for w := range workers {
		wg.Go(func() {
			for i := w; i < len(named); i += workers {
				select {
				case <-cancel:
					return
				default:
					l.tell(cancel, in, named[i])
				}
			}
		})
	}
	wg.Wait()
}

// tell looks a name up. Of one that fails nothing is told: a stat will.
func (l *kernelLayer) tell(cancel <-chan struct{}, in *fuse.ReadIn, n namedEntry) {
	defer func() {
		if what := recover(); what != nil {
			l.panicked(what)
			*n.entry = fuse.EntryOut{}
		}
	}()
	header := in.InHeader
	if status := l.RawFileSystem.Lookup(cancel, &header, n.name, n.entry); !status.Ok() || n.entry.NodeId == 0 {
		*n.entry = fuse.EntryOut{}
		return
	}
	l.lookups.Add(1)
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
