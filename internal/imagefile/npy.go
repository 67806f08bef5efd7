package imagefile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"prismfs/raster"
)

// maxNPYHeader bounds the text of a header, in bytes; NumPy itself refuses
// more than 10,000.
const maxNPYHeader = 10_000

// npyHead is the header of a .npy file.
type npyHead struct {
	descr   string // as written, "<u2"
	fortran bool
	shape   []int64
}

// decodeNPY reads an array of 2 dimensions, or of 3 with 1 to 4 channels
// last, of uint8, uint16 or int16 in either byte order, stored in C or in
// Fortran order (format: NumPy's numpy.lib.format). One channel is grey, three
// are RGB; of two or four nothing says what they mean. Every other array is
// refused, and so are bytes after the array.
func decodeNPY(data []byte, lim Limits) (*Decoded, error) {
	text, samples, err := splitNPY(data)
	if err != nil {
		return nil, err
	}
	head, err := parseNPYHead(text)
	if err != nil {
		return nil, refuse(NPY, ErrDamaged, "the header is not understood: %v", err)
	}
	dtype, bigEndian, err := npyType(head.descr)
	if err != nil {
		return nil, err
	}
	shape, err := npyShape(head.shape, dtype, lim)
	if err != nil {
		return nil, err
	}
	switch have, need := int64(len(samples)), shape.Bytes(); {
	case have < need:
		return nil, refuse(NPY, ErrTruncated, "the array ends early (%d of %d bytes)", have, need)
	case have > need:
		return nil, refuse(NPY, ErrUnsupported, "%d bytes follow the array", have-need)
	}
	img, err := newImage(NPY, shape, lim)
	if err != nil {
		return nil, err
	}
	if head.fortran {
		fromFortran(img, samples)
	} else {
		copy(img.Pix, samples)
	}
	if bigEndian {
		swapPairs(img.Pix)
	}
	return &Decoded{Image: img, Decoder: ownDecoder}, nil
}

// splitNPY returns the header's text and what follows it.
func splitNPY(data []byte) (text string, samples []byte, err error) {
	short := refuse(NPY, ErrTruncated, "the file ends in its header")
	if len(data) < 12 {
		return "", nil, short
	}
	var start, n int64
	switch major, minor := data[6], data[7]; {
	case major == 1 && minor == 0:
		start, n = 10, int64(binary.LittleEndian.Uint16(data[8:]))
	case (major == 2 || major == 3) && minor == 0:
		start, n = 12, int64(binary.LittleEndian.Uint32(data[8:]))
	default:
		return "", nil, refuse(NPY, ErrUnsupported, "format version %d.%d is not read", major, minor)
	}
	if n > maxNPYHeader {
		return "", nil, refuse(NPY, ErrTooLarge, "the header of %d bytes is over the limit of %d", n, maxNPYHeader)
	}
	if start+n > int64(len(data)) {
		return "", nil, short
	}
	return string(data[start : start+n]), data[start+n:], nil
}

// npyTypes are the types that are kept; | means that the order of bytes does
// not matter.
var npyTypes = map[string]struct {
	dtype     raster.DType
	bigEndian bool
}{
	"|u1": {raster.Uint8, false}, "<u1": {raster.Uint8, false}, ">u1": {raster.Uint8, false},
	"<u2": {raster.Uint16, false}, ">u2": {raster.Uint16, true},
	"<i2": {raster.Int16, false}, ">i2": {raster.Int16, true},
}

// npyKinds name the kinds of types for the message of a refusal.
var npyKinds = map[byte]string{
	'b': "boolean", 'i': "signed", 'u': "unsigned", 'f': "floating-point", 'c': "complex",
	'O': "object", 'S': "byte string", 'U': "string", 'V': "structured", 'M': "date", 'm': "time difference",
}

func npyType(descr string) (raster.DType, bool, error) {
	if t, ok := npyTypes[descr]; ok {
		return t.dtype, t.bigEndian, nil
	}
	kind := "unknown"
	if len(descr) > 1 && npyKinds[descr[1]] != "" {
		kind = npyKinds[descr[1]]
	}
	return 0, false, refuse(NPY, ErrUnsupported, "%s samples (%.20q) are not kept, only uint8, uint16 and int16", kind, descr)
}

func npyShape(dims []int64, dtype raster.DType, lim Limits) (raster.Shape, error) {
	if len(dims) != 2 && len(dims) != 3 {
		return raster.Shape{}, refuse(NPY, ErrUnsupported, "an array of %d dimensions is no image", len(dims))
	}
	for _, d := range dims {
		if d < 1 {
			return raster.Shape{}, refuse(NPY, ErrUnsupported, "an array of shape %v has no samples", dims)
		}
		if d > raster.MaxEdge {
			return raster.Shape{}, refuse(NPY, ErrTooLarge, "a dimension of %d is over the limit of %d", d, raster.MaxEdge)
		}
	}
	s := raster.Shape{Height: int(dims[0]), Width: int(dims[1]), Channels: 1, DType: dtype, Color: raster.Grey}
	if len(dims) == 3 {
		if dims[2] > raster.MaxChannels {
			hint := ""
			if dims[0] <= raster.MaxChannels {
				hint = ": are the channels first?"
			}
			return s, refuse(NPY, ErrUnsupported, "an array of shape %v has %d channels%s", dims, dims[2], hint)
		}
		s.Channels = int(dims[2])
		s.Color = [...]raster.Color{1: raster.Grey, 2: raster.Other, 3: raster.RGB, 4: raster.Other}[s.Channels]
	}
	if err := s.Check(); err != nil {
		return s, refuse(NPY, ErrTooLarge, "%v", err)
	}
	return s, checkSize(NPY, s.Width, s.Height, lim)
}

// fromFortran reads samples of which the first index runs fastest.
func fromFortran(img raster.Image, samples []byte) {
	size := img.DType.Size()
	for y := range img.Height {
		for x := range img.Width {
			for c := range img.Channels {
				src := ((c*img.Width+x)*img.Height + y) * size
				dst := ((y*img.Width+x)*img.Channels + c) * size
				copy(img.Pix[dst:dst+size], samples[src:])
			}
		}
	}
}

// parseNPYHead reads the literal of a Python dictionary that a header is:
// three keys, a string (or, for structured types, a list), a truth value and a
// tuple of numbers. Nothing else of Python is understood.
func parseNPYHead(text string) (npyHead, error) {
	var h npyHead
	p := &literal{rest: text}
	if !p.take("{") {
		return h, errors.New("no dictionary")
	}
	seen := map[string]bool{}
	for !p.take("}") {
		key, err := p.quoted()
		if err != nil {
			return h, err
		}
		if !p.take(":") {
			return h, fmt.Errorf("no value for %.20q", key)
		}
		if err := p.npyValue(key, &h); err != nil {
			return h, err
		}
		if seen[key] {
			return h, fmt.Errorf("%q stands twice", key)
		}
		seen[key] = true
		if !p.take(",") && !strings.HasPrefix(p.rest, "}") {
			return h, errors.New("no comma between entries")
		}
	}
	if p.blank(); p.rest != "" {
		return h, errors.New("text after the dictionary")
	}
	if len(seen) != 3 {
		return h, fmt.Errorf("%d of the 3 entries", len(seen))
	}
	return h, nil
}

// npyValue reads the value of a key into h.
func (p *literal) npyValue(key string, h *npyHead) error {
	var err error
	switch key {
	case "descr":
		if p.take("[") {
			h.descr = "|V" // a structured type: refused, so its end is searched for
			return p.skipTo("]")
		}
		h.descr, err = p.quoted()
	case "fortran_order":
		switch {
		case p.take("True"):
			h.fortran = true
		case !p.take("False"):
			err = errors.New("fortran_order is neither True nor False")
		}
	case "shape":
		h.shape, err = p.tuple()
	default:
		err = fmt.Errorf("unknown entry %.20q", key)
	}
	return err
}

// literal reads pieces of a Python literal.
type literal struct{ rest string }

func (p *literal) blank() { p.rest = strings.TrimLeft(p.rest, " \t\r\n") }

// take passes over white space and then over token, if that comes next.
func (p *literal) take(token string) bool {
	p.blank()
	rest, ok := strings.CutPrefix(p.rest, token)
	if ok {
		p.rest = rest
		p.blank()
	}
	return ok
}

// skipTo passes over everything up to the last occurrence of token.
func (p *literal) skipTo(token string) error {
	i := strings.LastIndex(p.rest, token)
	if i < 0 {
		return fmt.Errorf("no %s", token)
	}
	p.rest = p.rest[i+len(token):]
	p.blank()
	return nil
}

// quoted reads a string without escapes.
func (p *literal) quoted() (string, error) {
	for _, quote := range []string{"'", `"`} {
		if !p.take(quote) {
			continue
		}
		s, rest, ok := strings.Cut(p.rest, quote)
		if !ok || strings.Contains(s, `\`) {
			return "", errors.New("a string without an end")
		}
		p.rest = rest
		return s, nil
	}
	return "", errors.New("no string where one should be")
}

// tuple reads a tuple of whole numbers; Python 2 wrote an L after some.
func (p *literal) tuple() ([]int64, error) {
	if !p.take("(") {
		return nil, errors.New("shape is no tuple")
	}
	var out []int64
	for !p.take(")") {
		end := strings.IndexFunc(p.rest, func(r rune) bool { return r < '0' || r > '9' })
		if end < 0 {
			return nil, errors.New("a tuple without an end")
		}
		n, err := strconv.ParseInt(p.rest[:end], 10, 64)
		if err != nil {
			return nil, errors.New("a dimension that is no number")
		}
		out = append(out, n)
		p.rest = p.rest[end:]
		p.take("L")
		if !p.take(",") && !strings.HasPrefix(p.rest, ")") {
			return nil, errors.New("no comma in the shape")
		}
	}
	return out, nil
}
