package pcr

import (
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// The versions of records, by the metadata's field 3.
const (
	VersionAbsent     = 0   // of the first PyTorch converter; as 1
	VersionProtobuf   = 1   // a group is a message, one bytes field an image
	VersionRaw        = 2   // a group is the images' bytes joined
	VersionTensorFlow = 100 // as 1, with a tf.Example in the metadata
)

// The fields of MetadataRecord. Field 4, a tf.Example, is skipped as any other
// that is not known.
const (
	fieldLabels    protowire.Number = 1
	fieldLevels    protowire.Number = 2
	fieldVersion   protowire.Number = 3
	fieldExtension protowire.Number = 2000
)

// Metadata is the first part of a record.
type Metadata struct {
	Labels  []int32 // one an image; negative ones are passed on
	Levels  int     // number of groups L
	Version int     // see the constants
	// Extension is nil where the record has none, or one that does not fit it;
	// then ExtensionErr says why, and wraps ErrExtension.
	Extension    *Extension
	ExtensionErr error
}

// Raw says whether the groups are images' bytes without lengths.
func (m *Metadata) Raw() bool { return m.Version == VersionRaw }

// ParseMetadata reads the first part of a record, b being all of it. Labels may
// be packed or not; unknown fields are skipped. An extension that does not fit
// the rest is left out. One whose checksum says that the metadata was damaged
// is an error: the labels would be as doubtful.
func ParseMetadata(b []byte) (*Metadata, error) {
	m, err := parseMetadata(b)
	if err != nil {
		return nil, fmt.Errorf("reading the metadata of a record: %w", err)
	}
	return m, nil
}

func parseMetadata(b []byte) (*Metadata, error) {
	if len(b) > MaxMetadataBytes {
		return nil, fmt.Errorf("%w: metadata of %d bytes", ErrTooLarge, len(b))
	}
	m := &Metadata{}
	var extension []byte
	extensions, extensionEnd := 0, 0
	err := eachField(b, func(f field) error {
		switch f.num {
		case fieldLabels:
			return f.eachVarint(m.addLabel)
		case fieldLevels:
			return f.eachVarint(m.setLevels)
		case fieldVersion:
			return f.eachVarint(m.setVersion)
		case fieldExtension:
			if f.typ == protowire.BytesType {
				extension, extensionEnd = f.bytes, f.end
				extensions++
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if m.Levels == 0 {
		return nil, fmt.Errorf("%w: a record without scan groups", ErrDamaged)
	}
	switch {
	case extensions == 0:
		return m, nil
	case extensions > 1 || extensionEnd != len(b):
		m.ExtensionErr = fmt.Errorf("%w: it is not the one last field", ErrExtension)
		return m, nil
	}
	return m, m.readExtension(extension, b)
}

// addLabel takes a number that protobuf's int32 can be.
func (m *Metadata) addLabel(v uint64) error {
	label := int64(v)
	if label < math.MinInt32 || label > math.MaxInt32 {
		return fmt.Errorf("%w: a label of %d", ErrDamaged, label)
	}
	m.Labels = append(m.Labels, int32(label))
	return nil
}

func (m *Metadata) setLevels(v uint64) error {
	if v > MaxLevels {
		return fmt.Errorf("%w: %d scan groups, at most %d are read", ErrTooLarge, v, MaxLevels)
	}
	m.Levels = int(v)
	return nil
}

func (m *Metadata) setVersion(v uint64) error {
	switch v {
	case VersionAbsent, VersionProtobuf, VersionRaw, VersionTensorFlow:
		m.Version = int(v)
		return nil
	}
	return fmt.Errorf("%w: version %d", ErrUnsupported, v)
}
