package pcr

import (
	"errors"
	"fmt"
	"io"

	"google.golang.org/protobuf/encoding/protowire"
)

const (
	// entryWindow is read for each image: a tag, a length of up to 7 bytes.
	entryWindow = 8
	// longWindow holds any field's tag and length, or number: 10 bytes each.
	longWindow = 24
	// metadataWindow is read at once where fields are small and follow each
	// other.
	metadataWindow = 4096
)

// maxSkips returns how many fields that are not known are passed over in a
// group: each could cost a read.
func maxSkips(n int) int { return n + 64 }

// walker passes over the fields of a message without reading their bytes.
type walker struct {
	r      io.ReaderAt
	at     int64 // where the next field begins
	end    int64 // of the message or of the file
	window int   // bytes to read at once
	skips  int   // unknown fields that may still be passed over
	read   int64 // bytes read so far

	buf     []byte // what was read last
	bufFrom int64  // where it stands
}

// walked is a field that was passed over.
type walked struct {
	num  protowire.Number
	typ  protowire.Type
	body Span // of the type bytes: where they are in the file
}

// errNoField says that the bytes at hand do not hold the head of a field.
var errNoField = errors.New("no whole field")

// next returns the field at the walker's place and where it ends.
func (w *walker) next() (f walked, end int64, err error) {
	held := w.held()
	for _, want := range [...]int{0, w.window, longWindow} {
		n := int(min(int64(want), w.end-w.at))
		if want > 0 && n <= len(held) {
			continue
		}
		if n > 0 {
			if held, err = w.fetch(n); err != nil {
				return walked{}, 0, err
			}
		}
		if f, end, err = w.parse(held); !errors.Is(err, errNoField) {
			return f, end, err
		}
	}
	return walked{}, 0, fmt.Errorf("%w: byte %d: %w", ErrDamaged, w.at, errNoField)
}

// held returns the bytes at the walker's place that were read before.
func (w *walker) held() []byte {
	if i := w.at - w.bufFrom; i >= 0 && i < int64(len(w.buf)) {
		return w.buf[i:]
	}
	return nil
}

// fetch reads n bytes at the walker's place.
func (w *walker) fetch(n int) ([]byte, error) {
	if cap(w.buf) < n {
		w.buf = make([]byte, max(w.window, longWindow))
	}
	w.buf, w.bufFrom = w.buf[:n], w.at
	got, err := w.r.ReadAt(w.buf, w.at)
	w.read += int64(got)
	if got == n {
		return w.buf, nil
	}
	w.buf = w.buf[:0]
	if err == nil || errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: it ends early, at byte %d", ErrDamaged, w.at+int64(got))
	}
	return nil, fmt.Errorf("reading at byte %d: %w", w.at, err)
}

// parse reads the head of a field, and the value where it is a number. It
// returns errNoField where b could hold a part of one.
func (w *walker) parse(b []byte) (walked, int64, error) {
	num, typ, n := protowire.ConsumeTag(b)
	if n < 0 {
		return walked{}, 0, partOr(n)
	}
	f := walked{num: num, typ: typ}
	at := w.at + int64(n)
	switch typ {
	case protowire.BytesType:
		size, m := protowire.ConsumeVarint(b[n:])
		if m < 0 {
			return walked{}, 0, partOr(m)
		}
		at += int64(m)
		if size > uint64(w.end-min(at, w.end)) {
			return walked{}, 0, fmt.Errorf("%w: byte %d: %d bytes are said to follow, and %d do", ErrDamaged, w.at, size, w.end-min(at, w.end))
		}
		f.body = Span{Off: at, Len: int64(size)}
		return f, at + int64(size), nil
	case protowire.VarintType, protowire.Fixed32Type, protowire.Fixed64Type:
		m := protowire.ConsumeFieldValue(num, typ, b[n:])
		if m < 0 {
			return walked{}, 0, partOr(m)
		}
		return f, at + int64(m), nil
	}
	return walked{}, 0, fmt.Errorf("%w: byte %d: a field of the wire type %d", ErrDamaged, w.at, typ)
}

// partOr tells bytes that end within a field from those that are none.
func partOr(n int) error {
	err := protowire.ParseError(n)
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return errNoField
}

// skip counts a field that is not known.
func (w *walker) skip() error {
	if w.skips--; w.skips < 0 {
		return fmt.Errorf("%w: byte %d: too many unknown fields", ErrTooLarge, w.at)
	}
	return nil
}

// images passes over the next n images of a group and returns where they are
// in the file. The caller has made sure that n is no more than what can be.
func (w *walker) images(n int) ([]Span, error) {
	spans := make([]Span, 0, n)
	for len(spans) < n {
		if w.at >= w.end {
			return nil, fmt.Errorf("%w: %d images of %d", ErrDamaged, len(spans), n)
		}
		f, end, err := w.next()
		if err != nil {
			return nil, err
		}
		if f.num == fieldImages && f.typ == protowire.BytesType {
			spans = append(spans, f.body)
		} else if err := w.skip(); err != nil {
			return nil, err
		}
		w.at = end
	}
	return spans, nil
}

// unknown passes over fields that are none of an image.
func (w *walker) unknown() error {
	for w.at < w.end {
		f, end, err := w.next()
		if err != nil {
			return err
		}
		if f.num == fieldImages && f.typ == protowire.BytesType {
			return nil
		}
		if err := w.skip(); err != nil {
			return err
		}
		w.at = end
	}
	return nil
}

// rest passes over what follows the last image of a group.
func (w *walker) rest() error {
	if err := w.unknown(); err != nil {
		return err
	}
	if w.at != w.end {
		return fmt.Errorf("%w: byte %d: more images than the record has", ErrDamaged, w.at)
	}
	return nil
}
