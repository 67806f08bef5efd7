package fs

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	iofs "io/fs"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"

	"prismfs/dataset"
	"prismfs/order"
	"prismfs/order/shard"
	"prismfs/tensor"
)

// catalogue is what a stream is made of: the samples of a folder's tree, sorted by
// the bytes of their paths, with all that shards say of them. It takes some 32
// bytes a sample, and its name. Nothing in it changes once it is made.
type catalogue struct {
	form    tensor.Form
	folders []catalogueFolder
	samples []catalogueSample
	names   []byte // of the samples' files, one behind the other
	access  access

	unpacked    int    // images that are no samples
	leftOut     int    // samples that cannot be part of a stream
	whyLeftOut  error  // one of the reasons
	young       bool   // a folder was changed so lately that more may follow unseen
	fingerprint uint64 // of all this
}

type catalogueFolder struct {
	path  string
	class int // index of the folder of the stream's that it is in; -1 for none
	id    dataset.Identity
}

type catalogueSample struct {
	size    int64  // of its image
	label   int64  // unlabelled for none
	content uint64 // hash of the identity of its file
	nameEnd uint32 // in names
	folder  int32
}

const (
	unlabelled = math.MinInt64
	// maxNameBytes bounds the names of a catalogue.
	maxNameBytes = math.MaxUint32
)

// errManyNames says that a tree is too large for a catalogue.
var errManyNames = errors.New("the names of a stream's samples are too long for one catalogue")

// hashSeed is that of all hashes of identities: they are compared within one
// process.
var hashSeed = maphash.MakeSeed()

func contentHash(id dataset.Identity) uint64 { return maphash.Comparable(hashSeed, id) }

// name returns the name of a sample's file.
func (c *catalogue) name(i int) string {
	from := uint32(0)
	if i > 0 {
		from = c.samples[i-1].nameEnd
	}
	return string(c.names[from:c.samples[i].nameEnd])
}

// path returns the path of a sample in the source.
func (c *catalogue) path(i int) string {
	folder := c.folders[c.samples[i].folder].path
	if folder == "" {
		return c.name(i)
	}
	return folder + "/" + c.name(i)
}

// suffix returns how the member of a sample ends.
func (c *catalogue) suffix(i int) string {
	if c.form.Container != tensor.Orig {
		return c.form.Suffix()
	}
	if formatOf(c.name(i)) == dataset.PCR {
		return tensor.Form{Container: tensor.JPG}.Suffix()
	}
	return tensor.Form{Container: tensor.PNG}.Suffix()
}

// member returns what a shard says of a sample under a key.
func (c *catalogue) member(i int, key uint64) shard.Sample {
	s := &c.samples[i]
	m := shard.Sample{Key: key, Suffix: c.suffix(i), Bytes: s.size}
	if s.label != unlabelled {
		m.Label, m.Labelled = s.label, true
	}
	return m
}

// content returns what the image of a sample holds in a view, or ErrChanged
// where the source has another file by now.
func (c *catalogue) content(ds *dataset.Dataset, i int, v View) (content, error) {
	at := c.path(i)
	s, err := ds.Sample(background, at)
	if err != nil {
		// What is wrong with another file says nothing of the one that is meant.
		if info, err := ds.Stat(background, at); err == nil && contentHash(info.ID) != c.samples[i].content {
			return content{}, fmt.Errorf("%s: %w", at, dataset.ErrChanged)
		}
		return content{}, err
	}
	if contentHash(s.Info.ID) != c.samples[i].content {
		return content{}, fmt.Errorf("%s: %w", at, dataset.ErrChanged)
	}
	made, err := contentOf(background, ds, s, v)
	if err == nil && made.size != c.samples[i].size {
		err = fmt.Errorf("%s: %d bytes, %d announced: %w", at, made.size, c.samples[i].size, dataset.ErrChanged)
	}
	return made, err
}

// makeCatalogue reads a folder's tree and the headers of the samples in it.
func makeCatalogue(ctx context.Context, ds *dataset.Dataset, folder string, v View) (*catalogue, error) {
	c := &catalogue{form: v.Form}
	w := streamWalk{ctx: ctx, ds: ds, c: c}
	if err := w.root(folder); err != nil {
		return nil, err
	}
	if err := c.readHeaders(ctx, ds, v); err != nil {
		return nil, err
	}
	c.access.add(w.access)
	c.fingerprint = c.hash()
	return c, nil
}

// addSample books a sample of a folder, whose header is not read yet.
func (c *catalogue) addSample(folder int, name string) error {
	if len(c.samples) >= order.MaxSamples {
		return fmt.Errorf("%w: more than %d samples", order.ErrEpochTooLarge, order.MaxSamples)
	}
	if len(c.names)+len(name) > maxNameBytes {
		return errManyNames
	}
	c.names = append(c.names, name...)
	c.samples = append(c.samples, catalogueSample{nameEnd: uint32(len(c.names)), folder: int32(folder)})
	return nil
}

// headerChunk is how many headers a worker reads before it looks for others.
const headerChunk = 64

// readHeaders finds out sizes and labels, and leaves out what cannot be part of
// the stream. Several workers hide the latency of the store.
func (c *catalogue) readHeaders(ctx context.Context, ds *dataset.Dataset, v View) error {
	var (
		next    atomic.Int64
		failed  atomic.Bool
		workers sync.WaitGroup
		mu      sync.Mutex
		firstOf error
	)
	c.access = fullAccess()
	for range min(max(listWorkers, 2*runtime.GOMAXPROCS(0)), len(c.samples)/headerChunk+1) {
		workers.Go(func() {
			mine := fullAccess()
			leftOut, why := 0, error(nil)
			for !failed.Load() {
				from := int(next.Add(headerChunk)) - headerChunk
				if from >= len(c.samples) {
					break
				}
				for i := from; i < min(from+headerChunk, len(c.samples)); i++ {
					info, err := c.readHeader(ctx, ds, i, v)
					if err == nil {
						mine.add(accessOf(info))
						continue
					}
					if !staysOut(err) {
						failed.Store(true)
						mu.Lock()
						firstOf = err
						mu.Unlock()
						return
					}
					c.samples[i].size = -1
					leftOut, why = leftOut+1, err
				}
			}
			mu.Lock()
			defer mu.Unlock()
			c.access.add(mine)
			if c.leftOut += leftOut; why != nil {
				c.whyLeftOut = why
			}
		})
	}
	workers.Wait()
	if firstOf != nil {
		return firstOf
	}
	c.compact()
	return nil
}

// readHeader fills in what a sample's header says.
func (c *catalogue) readHeader(ctx context.Context, ds *dataset.Dataset, i int, v View) (dataset.Info, error) {
	s, err := ds.Sample(ctx, c.path(i))
	if err != nil {
		return dataset.Info{}, err
	}
	made, err := contentOf(ctx, ds, s, v)
	if err != nil {
		return dataset.Info{}, err
	}
	if made.size > shard.MaxMemberBytes {
		return dataset.Info{}, fmt.Errorf("%s: %w", s.Path, shard.ErrTooLarge)
	}
	x := &c.samples[i]
	x.size, x.label, x.content = made.size, c.label(s, x.folder), contentHash(s.Info.ID)
	return s.Info, nil
}

// label returns the class of a sample: the one that its record tells, else the
// index of the class folder, as torchvision's ImageFolder gives it in the plain
// view. What an L3 file tells is not asked: it was right in the tree that was
// packed, which may have been another one than that which is streamed.
func (c *catalogue) label(s *dataset.Sample, folder int32) int64 {
	if s.Format == dataset.PCR && s.Label != nil {
		return int64(*s.Label)
	}
	if class := c.folders[folder].class; class >= 0 {
		return int64(class)
	}
	return unlabelled
}

// staysOut reports whether a sample cannot be part of a stream, for a reason that
// stays: it is damaged, or cannot be read by us, or the form does not hold it. A
// store that fails may have it the next time.
func staysOut(err error) bool {
	var errno syscall.Errno
	switch {
	case errors.Is(err, dataset.ErrChanged):
		return false
	case errors.Is(err, iofs.ErrNotExist), errors.Is(err, iofs.ErrPermission), errors.Is(err, syscall.ELOOP):
		return true
	}
	return !errors.As(err, &errno) && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
}

// compact takes out the samples that are left out.
func (c *catalogue) compact() {
	if c.leftOut == 0 {
		return
	}
	kept, nameStart, namesKept := 0, uint32(0), uint32(0)
	for _, s := range c.samples {
		name := c.names[nameStart:s.nameEnd]
		nameStart = s.nameEnd
		if s.size < 0 {
			continue
		}
		namesKept += uint32(copy(c.names[namesKept:], name))
		s.nameEnd = namesKept
		c.samples[kept] = s
		kept++
	}
	c.samples, c.names = c.samples[:kept], c.names[:namesKept]
}

// hash distinguishes the catalogue from others of its folder.
func (c *catalogue) hash() uint64 {
	var h maphash.Hash
	h.SetSeed(hashSeed)
	var numbers [24]byte
	for _, f := range c.folders {
		h.WriteString(f.path)
		h.WriteByte(0)
	}
	h.Write(c.names)
	for i := range c.samples {
		s := &c.samples[i]
		binary.LittleEndian.PutUint64(numbers[:], s.content)
		binary.LittleEndian.PutUint64(numbers[8:], uint64(s.label))
		binary.LittleEndian.PutUint32(numbers[16:], s.nameEnd)
		binary.LittleEndian.PutUint32(numbers[20:], uint32(s.folder))
		h.Write(numbers[:])
		binary.LittleEndian.PutUint64(numbers[:], uint64(s.size))
		h.Write(numbers[:8])
	}
	maphash.WriteComparable(&h, c.access)
	return h.Sum64()
}

// meanBytes is how large an image is in the mean.
func (c *catalogue) meanBytes() int64 {
	if len(c.samples) == 0 {
		return 0
	}
	sum := int64(0)
	for i := range c.samples {
		sum += c.samples[i].size
	}
	return sum / int64(len(c.samples))
}
