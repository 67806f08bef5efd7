package pcr

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"path"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// extensionVersion is the one that is written and read.
const extensionVersion = 1

// The fields of the extension.
const (
	fieldExtVersion    protowire.Number = 1
	fieldExtNames      protowire.Number = 2
	fieldExtClasses    protowire.Number = 3
	fieldExtShapes     protowire.Number = 4
	fieldExtLengths    protowire.Number = 5
	fieldExtChecksums  protowire.Number = 6
	fieldExtDatasetID  protowire.Number = 7
	fieldExtQuality    protowire.Number = 8
	fieldExtSourceHash protowire.Number = 9
	fieldExtCRC        protowire.Number = 15

	fieldClassLabel protowire.Number = 1
	fieldClassName  protowire.Number = 2
)

// crcFieldBytes is what the checksum takes at the end of the metadata: a tag of
// one byte and a fixed32.
const crcFieldBytes = 5

// maxEdge is the largest width and height of a JPEG, in pixels.
const maxEdge = 65535

// castagnoli is the polynomial of CRC-32C.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Checksum returns the CRC-32C of an image's bytes in a group, as Extension has
// it.
func Checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// Class is a class of a dataset.
type Class struct {
	Label int32
	Name  string // of its folder
}

// ImageShape is the size of an image.
type ImageShape struct {
	Width, Height uint32 // pixels
	Components    uint32 // of the JPEG: 1, 3 or 4
}

// Extension is what this package's writer adds to the metadata of a record.
// Parts that a record lacks are nil. Names, Shapes and the inner slices of
// Lengths and Checksums have one element an image.
type Extension struct {
	Names     []string // file names of the sources, relative to the class folder
	Classes   []Class  // of the dataset, or of the labels that occur; each label and each name once
	Shapes    []ImageShape
	Lengths   [][]uint32 // bytes, [group][image]
	Checksums [][]uint32 // CRC-32C of the bytes, [group][image]
	DatasetID uint64     // the same for all records of a dataset; 0: none
	Quality   int        // of the images that had to be encoded; 0: none was
	// SourceHash is 64 bits over what the record was made from; 0: unknown. It
	// means something to the program that wrote the record only.
	SourceHash uint64
}

// readExtension reads the extension x of the metadata b, which it ends. An
// error says that the metadata is damaged as a whole.
func (m *Metadata) readExtension(x, b []byte) error {
	misfit := func(err error) {
		m.ExtensionErr = fmt.Errorf("%w: %w", ErrExtension, err)
	}
	// The version decides what the rest means, so it comes first.
	first, n := consumeField(x)
	if n > 0 && first.num == fieldExtVersion && first.typ == protowire.VarintType && first.value != extensionVersion {
		misfit(fmt.Errorf("%w: version %d", ErrUnsupported, first.value))
		return nil
	}
	body, err := checkedExtension(x, b)
	if err != nil {
		return err
	}
	ext, err := m.parseExtension(body)
	if err != nil {
		misfit(err)
		return nil
	}
	m.Extension = ext
	return nil
}

// checkedExtension returns the extension x without its checksum, which is that
// of everything before it in the metadata b.
func checkedExtension(x, b []byte) ([]byte, error) {
	tag := protowire.AppendTag(nil, fieldExtCRC, protowire.Fixed32Type)
	at := len(b) - crcFieldBytes
	if len(x) < crcFieldBytes || b[at] != tag[0] {
		return nil, fmt.Errorf("%w: the extension does not end with its checksum", ErrDamaged)
	}
	stored := binary.LittleEndian.Uint32(b[at+1:])
	if sum := Checksum(b[:at]); sum != stored {
		return nil, fmt.Errorf("%w: its checksum is %08x and should be %08x", ErrDamaged, sum, stored)
	}
	return x[:len(x)-crcFieldBytes], nil
}

// parseExtension reads what stands before the checksum and compares it with the
// rest of the metadata.
func (m *Metadata) parseExtension(x []byte) (*Extension, error) {
	if m.Version != VersionAbsent && m.Version != VersionProtobuf {
		return nil, fmt.Errorf("%w: in a record of version %d", ErrUnsupported, m.Version)
	}
	ext := &Extension{}
	n := len(m.Labels)
	if first, size := consumeField(x); size < 0 || first.num != fieldExtVersion || first.typ != protowire.VarintType {
		return nil, fmt.Errorf("%w: it does not begin with its version", ErrDamaged)
	}
	err := eachField(x, func(f field) error {
		switch {
		case f.num == fieldExtNames && f.typ == protowire.BytesType:
			if len(ext.Names) == n {
				return fmt.Errorf("%w: more than %d names", ErrDamaged, n)
			}
			ext.Names = append(ext.Names, string(f.bytes))
		case f.num == fieldExtClasses && f.typ == protowire.BytesType:
			return ext.addClass(f.bytes)
		case f.num == fieldExtShapes && f.typ == protowire.BytesType:
			return ext.addShapes(f.bytes, n)
		case f.num == fieldExtLengths && f.typ == protowire.BytesType:
			return addColumn(&ext.Lengths, f.bytes, n, m.Levels)
		case f.num == fieldExtChecksums && f.typ == protowire.BytesType:
			return addColumn(&ext.Checksums, f.bytes, n, m.Levels)
		case f.num == fieldExtDatasetID && f.typ == protowire.VarintType:
			ext.DatasetID = f.value
		case f.num == fieldExtQuality && f.typ == protowire.VarintType:
			if f.value > 100 {
				return fmt.Errorf("%w: quality %d", ErrDamaged, f.value)
			}
			ext.Quality = int(f.value)
		case f.num == fieldExtSourceHash && f.typ == protowire.Fixed64Type:
			ext.SourceHash = f.value
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return ext, ext.fits(m)
}

// addClass reads one class.
func (x *Extension) addClass(b []byte) error {
	if len(x.Classes) == maxClasses {
		return fmt.Errorf("%w: more than %d classes", ErrTooLarge, maxClasses)
	}
	var c Class
	err := eachField(b, func(f field) error {
		switch {
		case f.num == fieldClassLabel && f.typ == protowire.VarintType:
			label := int64(f.value)
			if label < math.MinInt32 || label > math.MaxInt32 {
				return fmt.Errorf("%w: a label of %d", ErrDamaged, label)
			}
			c.Label = int32(label)
		case f.num == fieldClassName && f.typ == protowire.BytesType:
			c.Name = string(f.bytes)
		}
		return nil
	})
	x.Classes = append(x.Classes, c)
	return err
}

// addShapes reads the sizes of n images.
func (x *Extension) addShapes(b []byte, n int) error {
	if len(b) < 3*n || x.Shapes != nil {
		return fmt.Errorf("%w: sizes in %d bytes for %d images", ErrDamaged, len(b), n)
	}
	x.Shapes = make([]ImageShape, n)
	i := 0
	f := field{typ: protowire.BytesType, bytes: b}
	err := f.eachVarint(func(v uint64) error {
		if i == 3*n || v > math.MaxUint32 {
			return fmt.Errorf("%w: more than the sizes of %d images", ErrDamaged, n)
		}
		s := &x.Shapes[i/3]
		*[]*uint32{&s.Width, &s.Height, &s.Components}[i%3] = uint32(v)
		i++
		return nil
	})
	if err == nil && i != 3*n {
		err = fmt.Errorf("%w: %d numbers for the sizes of %d images", ErrDamaged, i, n)
	}
	return err
}

// addColumn reads one number for each of n images, those of one group.
func addColumn(columns *[][]uint32, b []byte, n, levels int) error {
	if len(b) != 4*n {
		return fmt.Errorf("%w: %d bytes for %d images", ErrDamaged, len(b), n)
	}
	if len(*columns) == levels {
		return fmt.Errorf("%w: more than %d groups", ErrDamaged, levels)
	}
	column := make([]uint32, n)
	for i := range column {
		column[i] = binary.LittleEndian.Uint32(b[4*i:])
	}
	*columns = append(*columns, column)
	return nil
}

// fits compares the extension with the rest of the metadata.
func (x *Extension) fits(m *Metadata) error {
	n := len(m.Labels)
	switch {
	case x.Names != nil && len(x.Names) != n:
		return fmt.Errorf("%w: %d names for %d images", ErrDamaged, len(x.Names), n)
	case x.Lengths != nil && len(x.Lengths) != m.Levels:
		return fmt.Errorf("%w: lengths of %d groups for %d", ErrDamaged, len(x.Lengths), m.Levels)
	case x.Checksums != nil && len(x.Checksums) != m.Levels:
		return fmt.Errorf("%w: checksums of %d groups for %d", ErrDamaged, len(x.Checksums), m.Levels)
	}
	for _, name := range x.Names {
		if err := checkImageName(name); err != nil {
			return err
		}
	}
	for _, s := range x.Shapes {
		if err := s.check(); err != nil {
			return err
		}
	}
	return checkClasses(x.Classes, m.Labels)
}

// checkImageName accepts a relative path that stays where it is.
func checkImageName(name string) error {
	if len(name) > maxPathBytes || path.Clean(name) != name {
		return fmt.Errorf("%w: the image name %.300q", ErrDamaged, name)
	}
	for part := range strings.SplitSeq(name, "/") {
		if err := checkFileName(part); err != nil {
			return err
		}
	}
	return nil
}

// check accepts what a JPEG can be.
func (s ImageShape) check() error {
	switch {
	case s.Width < 1 || s.Height < 1 || s.Width > maxEdge || s.Height > maxEdge:
		return fmt.Errorf("%w: an image of %d×%d pixels", ErrDamaged, s.Width, s.Height)
	case s.Components != 1 && s.Components != 3 && s.Components != 4:
		return fmt.Errorf("%w: an image of %d components", ErrDamaged, s.Components)
	}
	return nil
}

// checkClasses makes sure that every label has one name, and no two the same.
func checkClasses(classes []Class, labels []int32) error {
	if classes == nil {
		return nil
	}
	if len(classes) > maxClasses {
		return fmt.Errorf("%w: %d classes, at most %d are read", ErrTooLarge, len(classes), maxClasses)
	}
	byLabel := make(map[int32]bool, len(classes))
	byName := make(map[string]bool, len(classes))
	for _, c := range classes {
		if err := checkFileName(c.Name); err != nil {
			return err
		}
		if byLabel[c.Label] || byName[c.Name] {
			return fmt.Errorf("%w: the class %q stands twice, or its label %d", ErrDamaged, c.Name, c.Label)
		}
		byLabel[c.Label], byName[c.Name] = true, true
	}
	for _, label := range labels {
		if !byLabel[label] {
			return fmt.Errorf("%w: label %d has no class", ErrDamaged, label)
		}
	}
	return nil
}

// Entry returns the index entry of the record, without name, as the lengths of
// its images make it; metadataBytes is the length of the metadata. ok is false
// where the extension has no lengths, or none that a record could have.
func (x *Extension) Entry(metadataBytes int64) (e IndexEntry, ok bool) {
	if x.Lengths == nil {
		return IndexEntry{}, false
	}
	e.Lengths = make([]int64, 1, len(x.Lengths)+1)
	e.Lengths[0] = metadataBytes
	for _, column := range x.Lengths {
		var sum int64
		for _, n := range column {
			sum += entrySize(n)
		}
		e.Lengths = append(e.Lengths, sum)
	}
	return e, e.checkLengths() == nil
}

// Check returns an error that wraps ErrExtension unless the lengths of the
// images make up the groups that the index entry has.
func (x *Extension) Check(e *IndexEntry) error {
	if x.Lengths == nil {
		return nil
	}
	if len(x.Lengths) != e.Levels() {
		return fmt.Errorf("%w: %d groups, and %d in the index", ErrExtension, len(x.Lengths), e.Levels())
	}
	for g, column := range x.Lengths {
		var sum int64
		for _, n := range column {
			sum += entrySize(n)
		}
		if sum != e.Lengths[g+1] {
			return fmt.Errorf("%w: group %d has %d bytes, and %d in the index", ErrExtension, g+1, sum, e.Lengths[g+1])
		}
	}
	return nil
}

// Spans returns where each image's bytes are in group g (from 1); nil where the
// extension has no lengths.
func (x *Extension) Spans(g int) []Span {
	if x.Lengths == nil {
		return nil
	}
	spans := make([]Span, len(x.Lengths[g-1]))
	var off int64
	for i, n := range x.Lengths[g-1] {
		size := entrySize(n)
		spans[i] = Span{Off: off + size - int64(n), Len: int64(n)}
		off += size
	}
	return spans
}
