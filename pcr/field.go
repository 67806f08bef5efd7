package pcr

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// field is a field of a protobuf message.
type field struct {
	num   protowire.Number
	typ   protowire.Type
	value uint64 // of the types varint, fixed32 and fixed64
	bytes []byte // of the type bytes
	end   int    // where the field ends in the message
}

// eachField calls yield for the fields of a message, in order. An error of
// yield ends it and is returned.
func eachField(message []byte, yield func(field) error) error {
	for at := 0; at < len(message); {
		f, n := consumeField(message[at:])
		if n < 0 {
			return fmt.Errorf("%w: protobuf field at byte %d: %w", ErrDamaged, at, protowire.ParseError(n))
		}
		at += n
		f.end = at
		if err := yield(f); err != nil {
			return err
		}
	}
	return nil
}

// consumeField reads the field that b begins with; n is its bytes, or negative
// as protowire has it. Groups, which protobuf no longer has, are skipped as a
// field without a value.
func consumeField(b []byte) (f field, n int) {
	num, typ, n := protowire.ConsumeTag(b)
	if n < 0 {
		return field{}, n
	}
	f = field{num: num, typ: typ}
	var m int
	switch rest := b[n:]; typ {
	case protowire.VarintType:
		f.value, m = protowire.ConsumeVarint(rest)
	case protowire.Fixed32Type:
		var v uint32
		v, m = protowire.ConsumeFixed32(rest)
		f.value = uint64(v)
	case protowire.Fixed64Type:
		f.value, m = protowire.ConsumeFixed64(rest)
	case protowire.BytesType:
		f.bytes, m = protowire.ConsumeBytes(rest)
	default:
		m = protowire.ConsumeFieldValue(num, typ, rest)
	}
	if m < 0 {
		return field{}, m
	}
	return f, n + m
}

// eachVarint calls yield for every number of a repeated field, be it one of
// them or several packed. A field of another type has none.
func (f *field) eachVarint(yield func(uint64) error) error {
	switch f.typ {
	case protowire.VarintType:
		return yield(f.value)
	case protowire.BytesType:
		for b := f.bytes; len(b) > 0; {
			v, n := protowire.ConsumeVarint(b)
			if n < 0 {
				return fmt.Errorf("%w: packed numbers: %w", ErrDamaged, protowire.ParseError(n))
			}
			if err := yield(v); err != nil {
				return err
			}
			b = b[n:]
		}
	}
	return nil
}
