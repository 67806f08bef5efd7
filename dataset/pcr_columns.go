package dataset

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	"prismfs/pcr"
)

// What is found out about a record when it is needed, and kept in a block of the
// table, in numbers of this machine's byte order (little-endian; the header of
// a table is of no use elsewhere):
//
//	8 n          what is known of each image; see cell
//	for each group g = 1 … L:
//	4, 4         CRC-32C of what follows; the same, changed by a number that says
//	             which group this is: nothing is known as long as the two disagree
//	4 n          bytes of each image in the group
//	4 n          CRC-32C of these bytes, where the record has them
//	n            bytes between the end of the image before and the image's
//	             beginning: the field's tag and length
//	             to a multiple of 8
//
// That is 50 bytes an image for ten groups, and 8 for what is known of it.

const (
	cellBytes         = 8
	columnHeaderBytes = 8

	// sealBase makes a column of zeros one that is not known.
	sealBase = 0x9e3779b9
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (h *recordHead) columnBytes() int64 {
	n := int64(h.Images) * 5
	if h.Sums {
		n += int64(h.Images) * 4
	}
	return columnHeaderBytes + (n+7)&^7
}

func (h *recordHead) blockBytes() int64 {
	return int64(h.Images)*cellBytes + int64(h.levels())*h.columnBytes()
}

func (h *recordHead) levels() int { return len(h.Lengths) - 1 }

// checkBlock refuses a record that claims more than it can hold.
func (h *recordHead) checkBlock() error {
	if n := h.blockBytes(); n > smallBlockBytes && n/blockShare > h.Size {
		return fmt.Errorf("%w: %d images in %d groups, in %d bytes", pcr.ErrDamaged, h.Images, h.levels(), h.Size)
	}
	return nil
}

// record is a record of a PCR folder.
type record struct {
	recordHead
	folder *pcrFolder
	path   string  // in the source
	stem   string  // of its file name
	info   Info    // of the file, when the folder was looked into
	starts []int64 // starts[g-1] is where group g begins, starts[L] where the record ends

	file   atomic.Pointer[block] // in the table; nil as long as nobody asked
	memory atomic.Pointer[block] // what the table has no room for; nil for nothing

	mu   sync.Mutex         // of finding things out
	bad  map[int]error      // groups that cannot be read
	odds map[int][]pcr.Span // groups that do not fit the columns
}

// block is what is known of a record.
type block struct {
	data    []byte
	checked []atomic.Bool // by group: the column is known and right
}

func newRecord(f *pcrFolder, head recordHead, info Info) *record {
	r := &record{recordHead: head, folder: f, path: join(f.path, head.Name), info: info}
	r.stem = strings.TrimSuffix(head.Name, RecordSuffix)
	r.starts = make([]int64, len(head.Lengths))
	var at int64
	for i, n := range head.Lengths {
		at += n
		r.starts[i] = at
	}
	return r
}

// column is where the bytes of a group's images are.
type column struct {
	r      *record
	start  int64 // of the group in the record
	lens   u32s
	sums   u32s // empty where there are no checksums
	gaps   []byte
	places []pcr.Span // instead of lens and gaps
}

func (c *column) length(image int) int64 {
	if c.places != nil {
		return c.places[image].Len
	}
	return int64(c.lens.at(image))
}

// at returns where the bytes of an image begin in the file.
func (c *column) at(image int) int64 {
	if c.places != nil {
		return c.start + c.places[image].Off
	}
	at := c.start
	for i := range image {
		at += int64(c.gaps[i]) + int64(c.lens.at(i))
	}
	return at + int64(c.gaps[image])
}

// mappedBlock returns the block in the file of the table, nil if there is none.
func (r *record) mappedBlock() *block {
	t := r.folder.table
	if t.data == nil || t.lost.Load() {
		return nil
	}
	if b := r.file.Load(); b != nil {
		return b
	}
	b := &block{data: t.data[r.Block : r.Block+r.blockBytes()], checked: make([]atomic.Bool, r.levels())}
	if !r.file.CompareAndSwap(nil, b) {
		b = r.file.Load()
	}
	return b
}

// known returns the column of group g if it is known.
func (r *record) known(g int) (column, bool) {
	memory := r.memory.Load()
	for _, b := range [...]*block{r.mappedBlock(), memory} {
		// A column in memory that is not checked is none, or being written.
		if b == nil || b == memory && !b.checked[g-1].Load() {
			continue
		}
		if r.check(b, g) {
			return r.split(g, r.columnOf(b, g)[columnHeaderBytes:]), true
		}
	}
	return column{}, false
}

// columnOf returns the bytes of the column of group g, its header first.
func (r *record) columnOf(b *block, g int) []byte {
	at := int64(r.Images)*cellBytes + int64(g-1)*r.columnBytes()
	return b.data[at : at+r.columnBytes()]
}

// check reports whether a block has the column of group g, whole.
func (r *record) check(b *block, g int) bool {
	if b.checked[g-1].Load() {
		return true
	}
	raw := r.columnOf(b, g)
	sum := binary.LittleEndian.Uint32(raw)
	if binary.LittleEndian.Uint32(raw[4:]) != sum^seal(g) || crc32.Checksum(raw[columnHeaderBytes:], castagnoli) != sum {
		return false
	}
	b.checked[g-1].Store(true)
	return true
}

func (r *record) split(g int, raw []byte) column {
	c := column{r: r, start: r.starts[g-1], lens: raw[:4*r.Images]}
	raw = raw[4*r.Images:]
	if r.Sums {
		c.sums, raw = raw[:4*r.Images], raw[4*r.Images:]
	}
	c.gaps = raw[:r.Images]
	return c
}

func seal(g int) uint32 { return sealBase * uint32(g) }

// errOddGroup says that a column cannot hold the spans of a group.
var errOddGroup = errors.New("a group of an unusual form")

// encodeColumn writes a column. raw is zero.
func (h *recordHead) encodeColumn(raw []byte, g int, spans []pcr.Span, sums []uint32) error {
	if len(spans) != h.Images || h.Sums && len(sums) != h.Images {
		return errOddGroup
	}
	lens, rest := u32s(raw[columnHeaderBytes:]), raw[columnHeaderBytes+4*h.Images:]
	if h.Sums {
		for i, s := range sums {
			u32s(rest).set(i, s)
		}
		rest = rest[4*h.Images:]
	}
	var end int64
	for i, s := range spans {
		gap := s.Off - end
		if gap < 0 || gap > math.MaxUint8 || s.Len < 0 || s.Len > math.MaxUint32 {
			return errOddGroup
		}
		lens.set(i, uint32(s.Len))
		rest[i] = byte(gap)
		end = s.Off + s.Len
	}
	sum := crc32.Checksum(raw[columnHeaderBytes:], castagnoli)
	binary.LittleEndian.PutUint32(raw, sum)
	binary.LittleEndian.PutUint32(raw[4:], sum^seal(g))
	return nil
}

// columns returns the columns of groups 1 to k, finding out what is not known
// yet.
func (r *record) columns(ctx context.Context, k int, dst []column) ([]column, error) {
	dst = dst[:0]
	for g := 1; g <= k; g++ {
		c, ok := r.known(g)
		if !ok {
			return r.findColumns(ctx, k, dst)
		}
		dst = append(dst, c)
	}
	return dst, nil
}

// findColumns is columns where some are missing. One at a time looks for them.
func (r *record) findColumns(ctx context.Context, k int, dst []column) ([]column, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.odds) > maxOdds {
		clear(r.odds)
	}
	// In memory, what was found can be forgotten in favour of other records before
	// it is used.
	for range maxFinds {
		dst = dst[:0]
		var missing []int
		for g := 1; g <= k; g++ {
			if err := r.bad[g]; err != nil {
				return dst, err
			}
			c, ok := r.known(g)
			if !ok && r.odds[g] != nil {
				c, ok = column{r: r, start: r.starts[g-1], places: r.odds[g]}, true
			}
			if !ok {
				missing = append(missing, g)
			}
			dst = append(dst, c)
		}
		if len(missing) == 0 {
			return dst, nil
		}
		if err := r.find(context.WithoutCancel(ctx), missing); err != nil {
			return dst, err
		}
	}
	return dst, fmt.Errorf("%w: no room for what was found", errTableLost)
}

const (
	// maxFinds is how often something that was forgotten at once is found again.
	maxFinds = 4
	// maxOdds is how many groups are kept that do not fit the columns. They are
	// rare, and found again.
	maxOdds = 32
)

// remember keeps that a group is damaged, but not that it could not be read.
func (r *record) remember(g int, err error) error {
	err = fmt.Errorf("scan group %d: %w", g, err)
	if isDamage(err) {
		if r.bad == nil {
			r.bad = make(map[int]error)
		}
		r.bad[g] = err
	}
	return err
}

// keep writes the column of a group into the table.
func (r *record) keep(g int, spans []pcr.Span, sums []uint32) error {
	raw := make([]byte, r.columnBytes())
	if err := r.encodeColumn(raw, g, spans, sums); err != nil {
		if r.Sums || len(spans) != r.Images {
			return fmt.Errorf("%w: %w", pcr.ErrDamaged, err)
		}
		if r.odds == nil {
			r.odds = make(map[int][]pcr.Span)
		}
		r.odds[g] = spans
		return nil
	}
	at := int64(r.Images)*cellBytes + int64(g-1)*r.columnBytes()
	if t := r.folder.table; !t.noBlocks.Load() {
		// The head comes last: without it the rest is nothing.
		err := t.write(r.Block+at+columnHeaderBytes, raw[columnHeaderBytes:])
		if err == nil {
			err = t.write(r.Block+at, raw[:columnHeaderBytes])
		}
		if err == nil {
			return nil
		}
		r.folder.toMemory(err)
	}
	if b := r.memoryBlock(); !b.checked[g-1].Load() {
		copy(r.columnOf(b, g), raw)
		b.checked[g-1].Store(true)
	}
	return nil
}

// toMemory goes on without the file of the table, the disk of which is full.
func (f *pcrFolder) toMemory(err error) {
	if !f.table.noBlocks.Swap(true) {
		f.withoutTable(err)
		f.d.log.Warn("a table cannot be written to; what it lacks is kept in memory", "table", f.table.path, "error", err)
	}
}

// memoryBlock returns the block in memory, made on demand.
func (r *record) memoryBlock() *block {
	if b := r.memory.Load(); b != nil {
		return b
	}
	t := r.folder.table
	b := &block{data: alignedBytes(r.blockBytes()), checked: make([]atomic.Bool, r.levels())}
	t.mu.Lock()
	defer t.mu.Unlock()
	if old := r.memory.Load(); old != nil {
		return old
	}
	if t.inBytes+r.blockBytes() > maxMemoryTables {
		for other := range t.blocks {
			other.memory.Store(nil)
		}
		clear(t.blocks)
		t.inBytes = 0
	}
	t.blocks[r] = r.blockBytes()
	t.inBytes += r.blockBytes()
	r.memory.Store(b)
	return b
}

// alignedBytes returns zeros of which words can be read and written at once.
func alignedBytes(n int64) []byte {
	words := make([]uint64, (n+7)/8)
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), n)
}

// open opens the record, if it is still the one that the folder was made of.
func (r *record) open(ctx context.Context) (File, error) {
	f, err := r.folder.d.store.Open(ctx, r.path)
	if err != nil {
		return nil, err
	}
	if f.Info().ID != r.info.ID {
		f.Close()
		r.folder.stale.Store(true)
		return nil, r.folder.d.failed("read", r.path, fmt.Errorf("%w since its folder was looked into", ErrChanged))
	}
	return f, nil
}

// find finds out where the images' bytes are in some groups, which ascend.
func (r *record) find(ctx context.Context, groups []int) error {
	d := r.folder.d
	f, err := r.open(ctx)
	if err != nil {
		return err
	}
	defer f.Close()
	last := groups[len(groups)-1]
	if end := r.starts[last-1] + r.Lengths[last]; end > r.info.Size {
		for _, g := range groups {
			if r.starts[g-1]+r.Lengths[g] > r.info.Size {
				return d.failed("read", r.path, r.remember(g, fmt.Errorf("%w: it ends within the record, whose file has %d bytes instead of %d",
					pcr.ErrDamaged, r.info.Size, r.starts[len(r.starts)-1])))
			}
		}
	}
	var reader io.ReaderAt = countingReader{f, &d.bytesIndex}
	if d.remoteReads {
		reader = newChunkReader(reader, r.starts[groups[0]-1], r.starts[last-1]+r.Lengths[last])
	}
	switch {
	case r.Extension:
		err = r.findInExtension(reader, groups)
	case r.FullIndex:
		err = r.findInIndex(ctx, groups)
	case r.Version == pcr.VersionRaw:
		err = r.findByMarkers(reader, groups)
	default:
		err = r.findByWalking(reader, groups)
	}
	if changed := checkSame(f, r.info.ID); changed != nil {
		r.folder.stale.Store(true)
		err = changed
	}
	if err != nil {
		return d.failed("find images in", r.path, err)
	}
	return nil
}

func (r *record) findByWalking(reader io.ReaderAt, groups []int) error {
	for _, g := range groups {
		spans, _, err := pcr.WalkGroup(reader, r.starts[g-1], r.Lengths[g], r.Images)
		if err != nil {
			return r.remember(g, err)
		}
		if err := r.keep(g, spans, nil); err != nil {
			return err
		}
		if g == 1 && r.folder.d.remoteReads {
			if err := r.keepShapes(reader, 0); err != nil {
				return err
			}
		}
	}
	return nil
}

// findByMarkers reads the groups of a record of version 2 whole, from the first
// on: only so is it known which image has come how far.
func (r *record) findByMarkers(reader io.ReaderAt, groups []int) error {
	splitter := pcr.NewSplitter(r.Images)
	for g := 1; g <= groups[len(groups)-1]; g++ {
		group := make([]byte, r.Lengths[g]) // no more than the file has; see find
		if n, err := reader.ReadAt(group, r.starts[g-1]); n < len(group) {
			if err == nil || errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return r.remember(g, err)
		}
		spans, err := splitter.Next(group)
		if err != nil {
			return r.remember(g, err)
		}
		if err := r.keep(g, spans, nil); err != nil {
			return err
		}
		if g == 1 { // the shapes cost nothing here
			if err := r.keepShapes(bytes.NewReader(group), r.starts[0]); err != nil {
				return err
			}
		}
	}
	return nil
}

// findInExtension reads the metadata again, which hold everything.
func (r *record) findInExtension(reader io.ReaderAt, groups []int) error {
	meta := make([]byte, r.Lengths[0])
	if n, err := reader.ReadAt(meta, 0); n < len(meta) {
		return fmt.Errorf("the metadata: %w", err)
	}
	m, err := pcr.ParseMetadata(meta)
	if err != nil {
		return err
	}
	if m.Extension == nil || len(m.Extension.Lengths) != r.levels() || r.Sums && len(m.Extension.Checksums) != r.levels() {
		return fmt.Errorf("%w: the extension is gone", ErrChanged)
	}
	for _, g := range groups {
		var sums []uint32
		if r.Sums {
			sums = m.Extension.Checksums[g-1]
		}
		if err := r.keep(g, m.Extension.Spans(g), sums); err != nil {
			return err
		}
	}
	return nil
}

// findInIndex reads the index again, for all records that it has sizes of.
func (r *record) findInIndex(ctx context.Context, groups []int) error {
	index, err := r.folder.readIndex(ctx)
	if err != nil {
		return err
	}
	sizes := index.FullSizes[r.Name]
	for _, g := range groups {
		if g > len(sizes) || len(sizes[g-1]) != r.Images {
			return r.remember(g, fmt.Errorf("%w: the index does not have the sizes of its images", pcr.ErrDamaged))
		}
		if err := r.keep(g, pcr.SpansOf(sizes[g-1]), nil); err != nil {
			return err
		}
	}
	return nil
}

// chunkReader turns small reads that go forward into large ones.
type chunkReader struct {
	r    io.ReaderAt
	end  int64 // nothing is read ahead beyond
	from int64
	buf  []byte
}

// chunkBytes is read at once: a request to a remote store takes as long as some
// megabytes.
const chunkBytes = 8 << 20

func newChunkReader(r io.ReaderAt, from, end int64) *chunkReader {
	return &chunkReader{r: r, from: from, end: end}
}

// ReadAt serves one reader at a time.
func (c *chunkReader) ReadAt(p []byte, off int64) (int, error) {
	if off < c.from || off+int64(len(p)) > c.from+int64(len(c.buf)) {
		if int64(len(p)) >= chunkBytes || off+int64(len(p)) > c.end {
			return c.r.ReadAt(p, off)
		}
		n := min(chunkBytes, c.end-off)
		if int64(cap(c.buf)) < n {
			c.buf = make([]byte, n)
		}
		got, err := c.r.ReadAt(c.buf[:n], off)
		c.buf, c.from = c.buf[:got], off
		if got < len(p) {
			return copy(p, c.buf), err
		}
	}
	return copy(p, c.buf[off-c.from:]), nil
}
