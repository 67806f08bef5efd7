package l3

import (
	"bytes"
	"encoding/binary"
)

// Sections are what a head carries beyond its fixed fields: type, flags,
// length, data, zeros to a multiple of 4. They stand in ascending order of
// their types, each at most once.
const (
	sectionTables        = 1
	sectionRankMap       = 2
	sectionHole          = 3
	sectionLabel         = 16
	sectionClass         = 17
	sectionOriginalName  = 18
	sectionSourceDecoder = 19
	sectionColourProfile = 20
)

const (
	sectionHeaderBytes = 8

	// sectionCritical marks a section without which the samples cannot be
	// had: a reader that does not know its type must refuse the file.
	sectionCritical = 1
)

// A section as read; data refers to the head.
type section struct {
	kind, flags uint16
	data        []byte
}

// nextSection splits the first section off b, which is not empty.
func nextSection(b []byte) (section, []byte, error) {
	if len(b) < sectionHeaderBytes {
		return section{}, nil, corrupt("a section breaks off")
	}
	s := section{kind: binary.LittleEndian.Uint16(b), flags: binary.LittleEndian.Uint16(b[2:])}
	length := int64(binary.LittleEndian.Uint32(b[4:]))
	b = b[sectionHeaderBytes:]
	end := (length + 3) &^ 3
	if end > int64(len(b)) {
		return section{}, nil, corrupt("section %d: %d bytes, %d are left", s.kind, length, len(b))
	}
	for _, v := range b[length:end] {
		if v != 0 {
			return section{}, nil, corrupt("section %d: padding is not 0", s.kind)
		}
	}
	s.data = b[:length]
	return s, b[end:], nil
}

// checkSections checks order, lengths and contents of all sections, but for
// the inside of entropy tables and of a rank map.
func checkSections(b []byte, coding Coding) error {
	last := -1
	for len(b) > 0 {
		var s section
		var err error
		if s, b, err = nextSection(b); err != nil {
			return err
		}
		if int(s.kind) <= last {
			return corrupt("section %d after section %d", s.kind, last)
		}
		last = int(s.kind)
		if err := s.check(coding); err != nil {
			return err
		}
	}
	return nil
}

func (s section) check(coding Coding) error {
	if s.flags&^sectionCritical != 0 {
		return unsupported("section %d with flags %#04x", s.kind, s.flags)
	}
	switch s.kind {
	case sectionTables:
		if !coding.entropyCoded() {
			return corrupt("entropy tables in the %v coding", coding)
		}
		return s.checkLength(1, maxTablesBytes)
	case sectionRankMap:
		if coding != Fast16 && coding != Dense16 {
			return corrupt("a rank map in the %v coding", coding)
		}
		return s.checkLength(2, maxRankMapBytes)
	case sectionHole:
		if coding != Dense16 {
			return corrupt("a hole value in the %v coding", coding)
		}
		return s.checkLength(2, 2)
	case sectionLabel:
		return s.checkLength(8, 8)
	case sectionClass:
		if err := s.checkLength(1, MaxClassBytes); err != nil {
			return err
		}
		return checkName(s.kind, s.data)
	case sectionOriginalName:
		if err := s.checkLength(1, MaxOriginalNameBytes); err != nil {
			return err
		}
		return checkFileName(s.data)
	case sectionSourceDecoder:
		if err := s.checkLength(1, MaxSourceDecoderBytes); err != nil {
			return err
		}
		return checkName(s.kind, s.data)
	case sectionColourProfile:
		return s.checkLength(1, MaxColourProfileBytes)
	}
	if s.flags&sectionCritical != 0 {
		return unsupported("section %d, which must be understood", s.kind)
	}
	return nil
}

func (s section) checkLength(least, most int) error {
	if len(s.data) > most {
		return tooLarge("section %d: %d bytes, the limit is %d", s.kind, len(s.data), most)
	}
	if len(s.data) < least {
		return corrupt("section %d: %d bytes", s.kind, len(s.data))
	}
	return nil
}

// checkName refuses NUL, which would end the name early elsewhere.
func checkName(kind uint16, name []byte) error {
	if bytes.IndexByte(name, 0) >= 0 {
		return corrupt("section %d: a NUL in %q", kind, name)
	}
	return nil
}

// checkFileName refuses what is not the name of one file in a folder: readers
// make files of that name.
func checkFileName(name []byte) error {
	if s := string(name); s == "." || s == ".." || bytes.IndexByte(name, '/') >= 0 {
		return corrupt("section %d: %q is no file name", sectionOriginalName, name)
	}
	return checkName(sectionOriginalName, name)
}

// findSection returns the data of a section, nil if there is none. The
// sections have been checked.
func findSection(b []byte, kind uint16) []byte {
	for len(b) > 0 {
		s, rest, err := nextSection(b)
		if err != nil {
			return nil
		}
		if s.kind == kind {
			return s.data
		}
		b = rest
	}
	return nil
}

// parseMetadata copies the metadata out of checked sections.
func parseMetadata(b []byte) Metadata {
	var m Metadata
	if v := findSection(b, sectionLabel); v != nil {
		label := int64(binary.LittleEndian.Uint64(v))
		m.Label = &label
	}
	m.Class = string(findSection(b, sectionClass))
	m.OriginalName = string(findSection(b, sectionOriginalName))
	m.SourceDecoder = string(findSection(b, sectionSourceDecoder))
	m.ColourProfile = bytes.Clone(findSection(b, sectionColourProfile))
	return m
}

// check returns the error that a reader would give for m.
func (m *Metadata) check() error {
	return checkSections(m.appendSections(nil), Raw)
}

// appendSections appends the sections of m, whose types are above those of
// entropy tables and rank map.
func (m *Metadata) appendSections(b []byte) []byte {
	if m.Label != nil {
		b = appendSection(b, sectionLabel, 0, binary.LittleEndian.AppendUint64(nil, uint64(*m.Label)))
	}
	for _, s := range []section{
		{kind: sectionClass, data: []byte(m.Class)},
		{kind: sectionOriginalName, data: []byte(m.OriginalName)},
		{kind: sectionSourceDecoder, data: []byte(m.SourceDecoder)},
		{kind: sectionColourProfile, data: m.ColourProfile},
	} {
		if len(s.data) > 0 {
			b = appendSection(b, s.kind, 0, s.data)
		}
	}
	return b
}

func appendSection(b []byte, kind, flags uint16, data []byte) []byte {
	b = binary.LittleEndian.AppendUint16(b, kind)
	b = binary.LittleEndian.AppendUint16(b, flags)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(data)))
	b = append(b, data...)
	return append(b, make([]byte, padded(len(data))-len(data))...)
}
