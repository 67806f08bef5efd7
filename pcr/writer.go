package pcr

import (
	"encoding/binary"
	"fmt"
	"io"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// Image is what a record holds of an image.
type Image struct {
	JPEG          []byte // progressive; EOI and what follows it are left out
	Label         int32  // not negative
	Class, Name   string // class folder, and file name in it, '/' between folders
	Width, Height int    // pixels
	Components    int    // 1, 3 or 4
}

// RecordInfo is what a record says of itself. The zero value says nothing.
type RecordInfo struct {
	DatasetID  uint64 // see Extension
	SourceHash uint64
	Quality    int
	// Classes are those of the whole dataset, so that each record tells all labels.
	// Every image's must be among them. nil stands for those that occur in the record.
	Classes []Class
	Bare    bool // without extension, as other writers do it
}

// WriteRecord writes a record of version 1. Images are cut by SplitScans. The
// index entry that it returns lacks the name only. An image that a record
// cannot hold is an error that wraps ErrImage and says which it is.
func WriteRecord(w io.Writer, images []Image, info RecordInfo) (IndexEntry, error) {
	r, err := newRecord(images, info)
	if err != nil {
		return IndexEntry{}, err
	}
	entry := IndexEntry{Lengths: make([]int64, 0, r.levels+1)}
	b := r.appendMetadata(nil)
	if len(b) > MaxMetadataBytes {
		return IndexEntry{}, fmt.Errorf("writing a record: %w: metadata of %d bytes", ErrTooLarge, len(b))
	}
	for g := 0; ; g++ {
		if _, err := w.Write(b); err != nil {
			return IndexEntry{}, fmt.Errorf("writing a record: %w", err)
		}
		entry.Lengths = append(entry.Lengths, int64(len(b)))
		if g == r.levels {
			return entry, nil
		}
		b = r.appendGroup(b[:0], g)
	}
}

// AppendRecord is WriteRecord into memory.
func AppendRecord(dst []byte, images []Image, info RecordInfo) ([]byte, IndexEntry, error) {
	w := appender(dst)
	entry, err := WriteRecord(&w, images, info)
	if err != nil {
		return nil, IndexEntry{}, err
	}
	return w, entry, nil
}

// appender is a writer into memory.
type appender []byte

// Write appends b.
func (a *appender) Write(b []byte) (int, error) {
	*a = append(*a, b...)
	return len(b), nil
}

// record is what is about to be written.
type record struct {
	images []Image
	scans  [][][]byte // [image][group]
	levels int        // the largest number of scans
	info   RecordInfo
	// classes are what the extension says, by label.
	classes []Class
}

func newRecord(images []Image, info RecordInfo) (*record, error) {
	if len(images) == 0 {
		return nil, fmt.Errorf("writing a record: %w: no images", ErrImage)
	}
	r := &record{images: images, scans: make([][][]byte, len(images)), info: info}
	if info.Quality < 0 || info.Quality > 100 {
		return nil, fmt.Errorf("writing a record: quality %d is not 0 to 100", info.Quality)
	}
	for i := range images {
		scans, err := images[i].split(info.Bare)
		if err != nil {
			return nil, fmt.Errorf("writing a record: image %d (%q): %w", i, images[i].Name, err)
		}
		r.scans[i] = scans
		r.levels = max(r.levels, len(scans))
	}
	if info.Bare {
		return r, nil
	}
	var err error
	if r.classes, err = classesOf(images, info.Classes); err != nil {
		return nil, fmt.Errorf("writing a record: %w: %w", ErrImage, err)
	}
	return r, nil
}

// split checks an image and cuts it.
func (m *Image) split(bare bool) ([][]byte, error) {
	if m.Label < 0 {
		return nil, fmt.Errorf("%w: its label is %d", ErrImage, m.Label)
	}
	if !bare {
		if err := m.checkNames(); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrImage, err)
		}
	}
	scans, err := SplitScans(m.JPEG)
	if err != nil {
		return nil, err
	}
	for _, s := range scans {
		// Lengths are 32 bits wide, and a group is built in memory.
		if len(s) > 1<<30 {
			return nil, fmt.Errorf("%w: a scan of %d bytes", ErrImage, len(s))
		}
	}
	return scans, nil
}

// checkNames checks what the extension says of an image.
func (m *Image) checkNames() error {
	if err := checkFileName(m.Class); err != nil {
		return fmt.Errorf("class: %w", err)
	}
	if err := checkImageName(m.Name); err != nil {
		return err
	}
	if m.Width < 0 || m.Height < 0 || m.Components < 0 || m.Width > maxEdge || m.Height > maxEdge || m.Components > 4 {
		return fmt.Errorf("%d×%d pixels of %d components", m.Width, m.Height, m.Components)
	}
	return m.shape().check()
}

func (m *Image) shape() ImageShape {
	return ImageShape{Width: uint32(m.Width), Height: uint32(m.Height), Components: uint32(m.Components)}
}

// scan returns the bytes of image i in group g (from 0); an image with fewer
// scans has none.
func (r *record) scan(i, g int) []byte {
	if g < len(r.scans[i]) {
		return r.scans[i][g]
	}
	return nil
}

// appendGroup appends group g (from 0).
func (r *record) appendGroup(b []byte, g int) []byte {
	for i := range r.images {
		b = protowire.AppendTag(b, fieldImages, protowire.BytesType)
		b = protowire.AppendBytes(b, r.scan(i, g))
	}
	return b
}

// appendMetadata appends the first part of the record. Labels are not packed,
// as the reference has them.
func (r *record) appendMetadata(b []byte) []byte {
	begin := len(b)
	for i := range r.images {
		b = protowire.AppendTag(b, fieldLabels, protowire.VarintType)
		b = protowire.AppendVarint(b, uint64(r.images[i].Label))
	}
	b = protowire.AppendTag(b, fieldLevels, protowire.VarintType)
	b = protowire.AppendVarint(b, uint64(r.levels))
	b = protowire.AppendTag(b, fieldVersion, protowire.VarintType)
	b = protowire.AppendVarint(b, VersionProtobuf)
	if r.info.Bare {
		return b
	}
	body := r.appendExtension(nil)
	b = protowire.AppendTag(b, fieldExtension, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(len(body)+crcFieldBytes))
	b = append(b, body...)
	sum := Checksum(b[begin:])
	b = protowire.AppendTag(b, fieldExtCRC, protowire.Fixed32Type)
	return protowire.AppendFixed32(b, sum)
}

// appendExtension appends the extension but for its checksum.
func (r *record) appendExtension(b []byte) []byte {
	b = protowire.AppendTag(b, fieldExtVersion, protowire.VarintType)
	b = protowire.AppendVarint(b, extensionVersion)
	for i := range r.images {
		b = protowire.AppendTag(b, fieldExtNames, protowire.BytesType)
		b = protowire.AppendString(b, r.images[i].Name)
	}
	for _, c := range r.classes {
		b = protowire.AppendTag(b, fieldExtClasses, protowire.BytesType)
		b = protowire.AppendBytes(b, c.appendTo(nil))
	}
	b = protowire.AppendTag(b, fieldExtShapes, protowire.BytesType)
	b = protowire.AppendBytes(b, r.shapes())
	b = r.appendColumns(b, fieldExtLengths, func(scan []byte) uint32 { return uint32(len(scan)) })
	b = r.appendColumns(b, fieldExtChecksums, Checksum)
	b = appendNumber(b, fieldExtDatasetID, r.info.DatasetID)
	b = appendNumber(b, fieldExtQuality, uint64(r.info.Quality))
	if r.info.SourceHash != 0 {
		b = protowire.AppendTag(b, fieldExtSourceHash, protowire.Fixed64Type)
		b = protowire.AppendFixed64(b, r.info.SourceHash)
	}
	return b
}

// appendNumber appends a field unless it is 0, which is what an absent one is.
func appendNumber(b []byte, num protowire.Number, v uint64) []byte {
	if v == 0 {
		return b
	}
	b = protowire.AppendTag(b, num, protowire.VarintType)
	return protowire.AppendVarint(b, v)
}

// classesOf returns the classes that a record names, by label: those that are
// given, which must hold all of the images, or else those of the images.
func classesOf(images []Image, given []Class) ([]Class, error) {
	out := slices.Clone(given)
	known := make(map[Class]bool, len(given))
	for _, c := range given {
		if c.Label < 0 {
			return nil, fmt.Errorf("the class %q has the label %d", c.Name, c.Label)
		}
		known[c] = true
	}
	for i := range images {
		c := Class{Label: images[i].Label, Name: images[i].Class}
		switch {
		case known[c]:
		case given != nil:
			return nil, fmt.Errorf("the class %q with the label %d, of image %d, is none of the dataset's", c.Name, c.Label, i)
		default:
			known[c] = true
			out = append(out, c)
		}
	}
	slices.SortFunc(out, func(a, b Class) int { return int(a.Label) - int(b.Label) })
	return out, checkClasses(out, nil)
}

func (c Class) appendTo(b []byte) []byte {
	b = appendNumber(b, fieldClassLabel, uint64(c.Label))
	b = protowire.AppendTag(b, fieldClassName, protowire.BytesType)
	return protowire.AppendString(b, c.Name)
}

// shapes returns the packed sizes of the images.
func (r *record) shapes() []byte {
	var b []byte
	for i := range r.images {
		s := r.images[i].shape()
		b = protowire.AppendVarint(b, uint64(s.Width))
		b = protowire.AppendVarint(b, uint64(s.Height))
		b = protowire.AppendVarint(b, uint64(s.Components))
	}
	return b
}

// appendColumns appends a field for every group, with a number for every image.
func (r *record) appendColumns(b []byte, num protowire.Number, of func(scan []byte) uint32) []byte {
	column := make([]byte, 4*len(r.images))
	for g := range r.levels {
		for i := range r.images {
			binary.LittleEndian.PutUint32(column[4*i:], of(r.scan(i, g)))
		}
		b = protowire.AppendTag(b, num, protowire.BytesType)
		b = protowire.AppendBytes(b, column)
	}
	return b
}
