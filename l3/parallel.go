package l3

import (
	"sync"
	"sync/atomic"
)

// crewBytes is the size from which several goroutines decode an image: for a
// smaller one, waking another costs about what it saves.
const crewBytes = 256 << 10

// A Crew lends goroutines to a Decoder, which decodes one image by several of
// them. Its methods are called by any of these and return at once.
type Crew interface {
	// Join asks for one more goroutine and reports whether it is lent.
	Join() bool

	// Leave asks, on behalf of a lent goroutine, whether it is wanted
	// elsewhere. If so, it has been given back by that, and begins nothing
	// more of the image.
	Leave() bool

	// Done gives a lent goroutine back: there is nothing left to begin.
	Done()
}

// WithWorkers makes a Decoder that decodes a large image by up to n goroutines,
// the caller's included. Each has scratch memory of its own, which is kept.
func WithWorkers(n int) DecoderOption {
	return func(d *Decoder) {
		d.crew = nil
		if n > 1 {
			d.crew = &fixedCrew{free: n - 1}
		}
	}
}

// DecodeWith is Decode with the help of a crew instead of what WithWorkers has
// said; nil is for none. What it returns, samples and errors, is the same.
func (d *Decoder) DecodeWith(crew Crew, dst, file []byte) (Info, error) {
	own := d.crew
	defer func() { d.crew = own }()
	d.crew = crew
	return d.Decode(dst, file)
}

// A fixedCrew is a number of goroutines that are wanted nowhere else.
type fixedCrew struct {
	mu   sync.Mutex
	free int
}

func (c *fixedCrew) Join() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.free == 0 {
		return false
	}
	c.free--
	return true
}

func (c *fixedCrew) Leave() bool { return false }

func (c *fixedCrew) Done() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.free++
}

// bands is an image that is decoded in bands: rows of patches, or the chunks of
// a raw image. Whoever has done one takes the next; bands are small, and cost
// different amounts.
//
// That something is wrong is all that it finds out about a bad image. The
// decoding by one goroutine, which comes after it, says what: the first error.
type bands struct {
	work      bandWork
	count     int
	dst, file []byte
	header    *header
	published publishedHeader
	starts    []int                      // of the bands in the file
	channels  [][publishedChannels]int64 // the same of a published file
	sums      []uint32                   // checksums of the samples

	crew   Crew
	next   atomic.Int64 // band that nobody has taken
	failed atomic.Bool
	lent   sync.WaitGroup

	mu   sync.Mutex
	idle []*bandHelper
}

// bandWork says what bands of a kind of file are.
type bandWork interface {
	// prepare readies the scratch memory of d for the image.
	prepare(d *Decoder) error

	// decode decodes a band with the scratch memory of d.
	decode(d *Decoder, band int) error
}

// A bandHelper is the scratch memory of a lent goroutine.
type bandHelper struct {
	d    *Decoder
	body func() // made once, so that starting it allocates nothing
}

// helped reports whether the crew is to be asked for an image of this size.
func (d *Decoder) helped(dst []byte) bool { return d.crew != nil && len(dst) >= crewBytes }

// decodeBands decodes the image of d.header with the help of the crew and
// reports whether the samples are there and right.
func (d *Decoder) decodeBands(dst, file []byte) bool {
	h, b := &d.header, &d.bands
	b.header = h
	table, columns := h.table(file[:h.headBytes]), 1
	if h.coding == Raw {
		b.work, b.count = (*rawBands)(b), int(h.entries())
	} else {
		g := newGrid(h.shape, h.logEdge)
		b.work, b.count, columns = (*patchBands)(b), g.rows, g.columns
	}
	b.starts = b.starts[:0]
	at := int(h.headBytes)
	for band := range b.count {
		b.starts = append(b.starts, at)
		for i := band * columns; i < (band+1)*columns; i++ {
			at += parseEntry(table, i).length
		}
	}
	b.sums = append(b.sums[:0], make([]uint32, b.count)...)
	return b.run(d, dst, file) && joinChecksums(b.sums, bandBytes(h), h.shape.Bytes()) == h.pixelCRC
}

// bandBytes is the size of the samples of every band but the last.
func bandBytes(h *header) int64 {
	if h.coding == Raw {
		return rawChunkBytes
	}
	return int64(h.shape.RowBytes()) << h.logEdge
}

// decodePublishedBands is decodeBands for the published format, which has no
// checksums.
func (d *Decoder) decodePublishedBands(dst, file []byte, h publishedHeader) bool {
	b := &d.bands
	b.work, b.count, b.published = (*publishedBands)(b), h.shape.Height/h.edge, h
	b.channels = b.channels[:0]
	columns, at := h.shape.Width/h.edge, h.channelStarts(file)
	for i := range b.count * columns {
		if i%columns == 0 {
			b.channels = append(b.channels, at)
		}
		for c := range at {
			at[c] += int64(h.patchBytes(file, c, i))
		}
	}
	return b.run(d, dst, file)
}

// run decodes all bands, by this goroutine and those that the crew lends, and
// reports whether nothing was wrong. All of them have ended when it returns,
// or panics.
func (b *bands) run(own *Decoder, dst, file []byte) (ok bool) {
	b.dst, b.file, b.crew = dst, file, own.crew
	b.next.Store(0)
	b.failed.Store(false)
	finished := false
	defer func() {
		if !finished {
			b.failed.Store(true)
		}
		b.lent.Wait()
		b.dst, b.file, b.crew, b.header = nil, nil, nil, nil // the caller's
		ok = !b.failed.Load()
	}()
	if err := b.work.prepare(own); err != nil {
		return
	}
	for band, more := b.take(); more; band, more = b.take() {
		b.recruit(own)
		b.decode(own, band)
	}
	finished = true
	return
}

// take hands out the next band, if one is left and nothing is wrong.
func (b *bands) take() (band int, ok bool) {
	if b.failed.Load() {
		return 0, false
	}
	band = int(b.next.Add(1)) - 1
	return band, band < b.count
}

func (b *bands) decode(d *Decoder, band int) {
	if err := b.work.decode(d, band); err != nil {
		b.failed.Store(true)
	}
}

// recruit starts as many goroutines as the crew lends and the image has bands
// for.
func (b *bands) recruit(own *Decoder) {
	for left := b.count - int(b.next.Load()); left > 0 && b.crew.Join(); left-- {
		x := b.helper(own)
		b.lent.Add(1)
		go x.body()
	}
}

// helper returns the scratch memory of a goroutine that has ended, or new one.
func (b *bands) helper(own *Decoder) *bandHelper {
	b.mu.Lock()
	defer b.mu.Unlock()
	if last := len(b.idle) - 1; last >= 0 {
		x := b.idle[last]
		b.idle = b.idle[:last]
		return x
	}
	x := &bandHelper{d: &Decoder{limits: own.limits, simd: own.simd}}
	x.body = func() { b.help(x) }
	return x
}

// help is what a lent goroutine does. A panic fails the image alone: whoever
// decodes it after that will meet it again, where the caller can see it.
func (b *bands) help(x *bandHelper) {
	left := false
	defer func() {
		if recover() != nil {
			b.failed.Store(true) // and its memory is not used again
		} else {
			b.mu.Lock()
			b.idle = append(b.idle, x)
			b.mu.Unlock()
		}
		if !left {
			b.crew.Done()
		}
		b.lent.Done()
	}()
	if err := b.work.prepare(x.d); err != nil {
		b.failed.Store(true)
		return
	}
	for {
		if left = b.crew.Leave(); left {
			return
		}
		band, more := b.take()
		if !more {
			return
		}
		b.decode(x.d, band)
	}
}

// patchBands are rows of patches.
type patchBands bands

func (b *patchBands) prepare(d *Decoder) error {
	return d.begin(b.header, b.header.sections(b.file[:b.header.headBytes]))
}

func (b *patchBands) decode(d *Decoder, band int) error {
	h := b.header
	g, table := newGrid(h.shape, h.logEdge), h.table(b.file[:h.headBytes])
	if _, err := d.decodePatchRow(b.dst, b.file, b.starts[band], band, table, g); err != nil {
		return err
	}
	b.sums[band] = d.appendBand(0, b.dst, g, band)
	return nil
}

// rawBands are the chunks of a raw image.
type rawBands bands

func (b *rawBands) prepare(*Decoder) error { return nil }

func (b *rawBands) decode(_ *Decoder, chunk int) (err error) {
	e := parseEntry(b.header.table(b.file[:b.header.headBytes]), chunk)
	b.sums[chunk], err = copyChunk(b.dst, b.file[b.starts[chunk]:], chunk, e)
	return err
}

// publishedBands are rows of patches of the published format.
type publishedBands bands

func (b *publishedBands) prepare(*Decoder) error { return nil }

func (b *publishedBands) decode(d *Decoder, band int) error {
	h, start := b.published, b.channels[band]
	columns := h.shape.Width / h.edge
	first, end := band*columns, (band+1)*columns
	if d.decodePublishedRun(b.dst, b.file, h, first, end, start) {
		return nil
	}
	for c := range publishedChannels {
		at := int(start[c])
		for i := first; i < end; i++ {
			n := h.patchBytes(b.file, c, i)
			if err := d.published.patch(b.dst, b.file[at:at+n], h, h.region(i), c); err != nil {
				return err
			}
			at += n
		}
	}
	return nil
}
