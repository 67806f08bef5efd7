package fs

import (
	"sync"
	"time"

	"prismfs/dataset"
	"prismfs/tensor"
)

// A lookup of a.npy asks the source for a file of that very name first, and for a.l3
// then. A listing knows both already: it has found a.l3 in the folder, and no a.npy. So
// what it tells attributes of is not looked for by name again, unless the folder has
// changed since the listing began.

// tickOfSource is how long a folder can change without its times telling so: the
// clock of file systems before Linux 6.13 goes in steps of up to 10 ms.
const tickOfSource = 20 * time.Millisecond

// settled returns the identity of a folder if a change from now on would be another
// one, else none.
func settled(id dataset.Identity, now time.Time) dataset.Identity {
	if now.UnixNano()-max(id.MTimeNS, id.CTimeNS) < tickOfSource.Nanoseconds() {
		return dataset.Identity{}
	}
	return id
}

// sampleOf returns the name of an entry that is listed under a name, where that is a
// sample's usual one, so that a lookup would come upon the sample at once, "" where it
// is not.
func sampleOf(e dataset.DirEntry, name string, v View) string {
	usual := v.Form.Container != tensor.L3 && v.Form.Container != tensor.Orig
	if !usual || e.Kind != dataset.Regular || !dataset.IsSample(e.Name) {
		return ""
	}
	if name != dataset.TrimSampleSuffix(e.Name)+v.Form.Suffix() {
		return ""
	}
	return e.Name
}

// listingBatch finds what entries of one answer stand for.
type listingBatch struct {
	dir    *dirNode
	folder *dataset.Folder // nil where lookups have to find out
	q      *pending
}

// batch begins an answer with attributes, which the request q is for.
func (l *listing) batch(q *pending) *listingBatch {
	q.found = new(sync.Map)
	b := &listingBatch{dir: l.in, q: q}
	folder, err := l.in.m.ds.Folder(background, l.in.at.source)
	if err != nil {
		return b
	}
	l.mu.Lock()
	from := l.from
	l.mu.Unlock()
	if info, err := folder.Info(background); err != nil || info.ID != from {
		folder.Close()
		return b
	}
	b.folder = folder
	return b
}

// find leaves what an entry stands for to the lookup of its name.
func (b *listingBatch) find(e listedEntry) {
	if b.folder == nil || e.sample == "" {
		return
	}
	s, err := b.folder.Sample(background, e.sample)
	if err != nil {
		return
	}
	if t, err := b.dir.m.names.targetOf(background, s, b.dir.at.view); err == nil {
		b.q.found.Store(e.Name, t)
	}
}

func (b *listingBatch) close() {
	if b.folder != nil {
		b.folder.Close()
	}
}
