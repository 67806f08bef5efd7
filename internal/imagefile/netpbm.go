package imagefile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"math/bits"
	"strconv"

	"prismfs/raster"
)

// ownDecoder is the name of the decoders of this package.
const ownDecoder = "prismfs"

// netpbmHead is the header of a Netpbm file.
type netpbmHead struct {
	kind          byte // '1' to '7'
	width, height int
	channels      int
	maxval        int
	color         raster.Color
}

// plain is true for the kinds that write samples as text.
func (h netpbmHead) plain() bool { return h.kind <= '3' }

// bitmap is true for the kinds of one bit, in which 1 is black.
func (h netpbmHead) bitmap() bool { return h.kind == '1' || h.kind == '4' }

// decodeNetpbm reads PBM, PGM and PPM, plain or raw, and PAM of the known
// tuple types. A maxval below 255 is spread over 0 to 255 as PIL does it; one
// above 255 gives uint16 samples, which are kept as they are, so that
// SignificantBits says what their range is. A file of several pictures is
// refused; other bytes after the picture are not looked at.
func decodeNetpbm(data []byte, lim Limits) (*Decoded, error) {
	text := &netpbmText{rest: data[2:]}
	head, err := readNetpbmHead(data[1], text, lim)
	if err != nil {
		return nil, err
	}
	shape := raster.Shape{Height: head.height, Width: head.width, Channels: head.channels, DType: raster.Uint8, Color: head.color}
	if head.maxval > 255 {
		shape.DType = raster.Uint16
	}
	if err := shape.Check(); err != nil {
		return nil, refuse(Netpbm, ErrUnsupported, "%v", err)
	}
	if err := checkNetpbmLength(head, shape, text.rest); err != nil {
		return nil, err
	}
	img, err := newImage(Netpbm, shape, lim)
	if err != nil {
		return nil, err
	}
	switch {
	case head.plain():
		err = readPlain(img, head, text)
	case head.bitmap():
		readBits(img, text)
	default:
		err = readRaw(img, head, text)
	}
	if err != nil {
		return nil, err
	}
	if f, ok := sniffNetpbm(text.rest); ok && f == Netpbm && !head.plain() {
		return nil, refuse(Netpbm, ErrUnsupported, "the file holds more than one picture")
	}
	d := &Decoded{Image: img, Decoder: ownDecoder}
	if head.maxval > 255 {
		d.SignificantBits = bits.Len(uint(head.maxval))
	}
	return d, nil
}

// errTextEnds says that a file has no further number.
var errTextEnds = errors.New("the text ends")

// netpbmText reads the text in a file, in which a comment, from # to the end
// of its line, stands for the end of the line.
type netpbmText struct{ rest []byte }

// next returns the next character, false at the end.
func (t *netpbmText) next() (byte, bool) {
	if len(t.rest) == 0 {
		return 0, false
	}
	c := t.rest[0]
	t.rest = t.rest[1:]
	if c != '#' {
		return c, true
	}
	end := bytes.IndexAny(t.rest, "\r\n")
	if end < 0 {
		t.rest = nil
		return 0, false
	}
	t.rest = t.rest[end+1:]
	return '\n', true
}

// skip passes over white space and returns the character after it.
func (t *netpbmText) skip() (byte, bool) {
	for {
		c, ok := t.next()
		if !ok || !isSpace(c) {
			return c, ok
		}
	}
}

// number reads a decimal number and the one character of white space that
// ends it, which is missing only at the end of the file.
func (t *netpbmText) number() (int, error) {
	c, ok := t.skip()
	if !ok {
		return 0, errTextEnds
	}
	n := 0
	for ; ok && !isSpace(c); c, ok = t.next() {
		if c < '0' || c > '9' {
			return 0, refuse(Netpbm, ErrDamaged, "%q where a number should be", c)
		}
		if n = 10*n + int(c-'0'); n > math.MaxInt32 {
			return 0, refuse(Netpbm, ErrDamaged, "a number above %d", math.MaxInt32)
		}
	}
	return n, nil
}

// blackBit reads a digit of a plain bitmap and returns 0 for 1, which is
// black.
func (t *netpbmText) blackBit() (int, error) {
	switch c, ok := t.skip(); {
	case !ok:
		return 0, errTextEnds
	case c == '0':
		return 1, nil
	case c == '1':
		return 0, nil
	default:
		return 0, refuse(Netpbm, ErrDamaged, "%q where 0 or 1 should be", c)
	}
}

func readNetpbmHead(kind byte, text *netpbmText, lim Limits) (netpbmHead, error) {
	if kind == '7' {
		return readPAMHead(text, lim)
	}
	h := netpbmHead{kind: kind, channels: 1, color: raster.Grey, maxval: 1}
	if kind == '3' || kind == '6' {
		h.channels, h.color = 3, raster.RGB
	}
	fields := []*int{&h.width, &h.height, &h.maxval}
	if h.bitmap() {
		fields = fields[:2]
	}
	for _, field := range fields {
		n, err := text.number()
		if err == errTextEnds {
			return h, refuse(Netpbm, ErrTruncated, "the file ends in its header")
		}
		if err != nil {
			return h, err
		}
		*field = n
	}
	return h, checkNetpbmHead(h, lim)
}

func checkNetpbmHead(h netpbmHead, lim Limits) error {
	if h.maxval < 1 || h.maxval > 65535 {
		return refuse(Netpbm, ErrDamaged, "maxval %d is not between 1 and 65535", h.maxval)
	}
	return checkSize(Netpbm, h.width, h.height, lim)
}

// tupleTypes are the PAM kinds whose channels have a meaning here.
var tupleTypes = map[string]raster.Color{
	"BLACKANDWHITE": raster.Grey, "BLACKANDWHITE_ALPHA": raster.GreyAlpha,
	"GRAYSCALE": raster.Grey, "GRAYSCALE_ALPHA": raster.GreyAlpha,
	"RGB": raster.RGB, "RGB_ALPHA": raster.RGBA,
}

func readPAMHead(text *netpbmText, lim Limits) (netpbmHead, error) {
	h := netpbmHead{kind: '7'}
	fields := map[string]*int{"WIDTH": &h.width, "HEIGHT": &h.height, "DEPTH": &h.channels, "MAXVAL": &h.maxval}
	var tuple string
	for {
		line, rest, ok := bytes.Cut(text.rest, []byte("\n"))
		if !ok {
			return h, refuse(Netpbm, ErrTruncated, "the header has no end")
		}
		text.rest = rest
		words := bytes.Fields(line)
		if len(words) == 0 || words[0][0] == '#' {
			continue
		}
		key := string(words[0])
		if key == "ENDHDR" {
			break
		}
		if len(words) != 2 {
			return h, refuse(Netpbm, ErrUnsupported, "%d words in header line %.40q", len(words), line)
		}
		value := string(words[1])
		if key == "TUPLTYPE" {
			tuple += value
			continue
		}
		n, err := strconv.ParseUint(value, 10, 31)
		if err != nil || fields[key] == nil {
			return h, refuse(Netpbm, ErrDamaged, "header line %.40q is not understood", line)
		}
		*fields[key] = int(n)
	}
	color, ok := tupleTypes[tuple]
	if !ok {
		return h, refuse(Netpbm, ErrUnsupported, "PAM of tuple type %.40q is not read", tuple)
	}
	if h.channels != color.Channels() {
		return h, refuse(Netpbm, ErrDamaged, "depth %d of tuple type %s", h.channels, tuple)
	}
	h.color = color
	return h, checkNetpbmHead(h, lim)
}

// checkNetpbmLength refuses a file that is too short for its header before
// anything is allocated for it.
func checkNetpbmLength(h netpbmHead, s raster.Shape, rest []byte) error {
	row := int64(s.RowBytes())
	switch {
	case h.kind == '1':
		// One digit a pixel, white space being optional.
	case h.bitmap():
		row = (int64(h.width) + 7) / 8
	case h.plain():
		row = 2 * int64(h.width) * int64(h.channels)
	}
	need := row * int64(h.height)
	if h.plain() && h.kind != '1' {
		need-- // no white space after the last one
	}
	if have := int64(len(rest)); have < need {
		return netpbmShort(int(have/row)+1, h)
	}
	return nil
}

func netpbmShort(line int, h netpbmHead) error {
	return refuse(Netpbm, ErrTruncated, "image data ends early (line %d of %d)", line, h.height)
}

// spread returns what becomes of the values 0 to maxval, which is at most
// 255: PIL's rounding, to even.
func spread(maxval int) []byte {
	out := make([]byte, maxval+1)
	for v := range out {
		out[v] = byte(math.RoundToEven(float64(v) / float64(maxval) * 255))
	}
	return out
}

// readPlain reads samples written as decimal numbers, or as single digits in
// a bitmap.
func readPlain(img raster.Image, h netpbmHead, text *netpbmText) error {
	next := text.number
	if h.bitmap() {
		next = text.blackBit
	}
	store := storer(img, h)
	samples := img.Width * img.Channels
	for i := range samples * img.Height {
		v, err := next()
		if err == errTextEnds {
			return netpbmShort(i/samples+1, h)
		}
		if err != nil {
			return err
		}
		if v > h.maxval {
			return aboveMaxval(v, i/samples+1, h)
		}
		store(i, v)
	}
	return nil
}

func aboveMaxval(v, line int, h netpbmHead) error {
	return refuse(Netpbm, ErrDamaged, "value %d in line %d is above the maxval of %d", v, line, h.maxval)
}

// storer returns a function that stores the value of sample i, which is at
// most maxval.
func storer(img raster.Image, h netpbmHead) func(i, v int) {
	if img.DType == raster.Uint16 {
		return func(i, v int) { binary.LittleEndian.PutUint16(img.Pix[2*i:], uint16(v)) }
	}
	spread := spread(h.maxval)
	return func(i, v int) { img.Pix[i] = spread[v] }
}

// readRaw reads the samples of P5, P6 and P7, whose number has been checked.
func readRaw(img raster.Image, h netpbmHead, text *netpbmText) error {
	copy(img.Pix, text.rest)
	text.rest = text.rest[len(img.Pix):]
	line := func(at int) int { return at/img.RowBytes() + 1 }
	if img.DType == raster.Uint16 {
		swapPairs(img.Pix)
		for i := 0; i < len(img.Pix) && h.maxval < 65535; i += 2 {
			if v := int(binary.LittleEndian.Uint16(img.Pix[i:])); v > h.maxval {
				return aboveMaxval(v, line(i), h)
			}
		}
		return nil
	}
	if h.maxval == 255 {
		return nil
	}
	spread := spread(h.maxval)
	for i, v := range img.Pix {
		if int(v) > h.maxval {
			return aboveMaxval(int(v), line(i), h)
		}
		img.Pix[i] = spread[v]
	}
	return nil
}

// readBits reads the rows of P4, each of whole bytes, 1 being black.
func readBits(img raster.Image, text *netpbmText) {
	row := (img.Width + 7) / 8
	for y := range img.Height {
		for x := range img.Width {
			if text.rest[x/8]<<(x%8)&0x80 == 0 {
				img.Pix[y*img.Width+x] = 255
			}
		}
		text.rest = text.rest[row:]
	}
}
