package tensor

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"prismfs/raster"
)

// checkRender compares a form of an image with the reference.
func checkRender(f Form, img raster.Image) error {
	l, err := f.Layout(img.Shape)
	if errors.Is(err, ErrCannotHold) {
		return nil
	}
	if err != nil {
		return err
	}
	want := referenceFile(f, img)
	if l.Size() != int64(len(want)) {
		return fmt.Errorf("%v as %v: size %d, want %d", img.Shape, f, l.Size(), len(want))
	}
	before := bytes.Clone(img.Pix)
	got, err := render(f, img)
	if err != nil {
		return err
	}
	if i := firstDifference(got, want); i >= 0 {
		return fmt.Errorf("%v as %v: byte %d of %d is wrong", img.Shape, f, i, len(want))
	}
	if !bytes.Equal(before, img.Pix) {
		return fmt.Errorf("%v as %v: the samples were overwritten", img.Shape, f)
	}
	a := referenceArray(f, img)
	shape := strings.NewReplacer("[", "(", "]", ")", " ", ", ").Replace(fmt.Sprint(l.Shape()))
	if shape != a.shape(f.CHW) || l.DType() != a.dtype() {
		return fmt.Errorf("%v as %v: described as %s of %s, is %s of %s", img.Shape, f, shape, l.DType(), a.shape(f.CHW), a.dtype())
	}
	return checkPlaces(f, l, img, want)
}

// checkPlaces checks what Direct and InPlace say.
func checkPlaces(f Form, l Layout, img raster.Image, want []byte) error {
	direct, isDirect := l.Direct()
	if isDirect && !bytes.Equal(want[direct:], img.Pix) {
		return fmt.Errorf("%v as %v: the samples are not at %d", img.Shape, f, direct)
	}
	offset, ok := l.InPlace()
	if isDirect && (!ok || offset != direct) {
		return fmt.Errorf("%v as %v: direct at %d, in place at %d", img.Shape, f, direct, offset)
	}
	if !ok {
		return nil
	}
	dst := bytes.Repeat([]byte{0x5a}, len(want))
	pix := dst[offset:][:len(img.Pix)]
	copy(pix, img.Pix)
	if err := l.Render(dst, pix); err != nil {
		return err
	}
	if i := firstDifference(dst, want); i >= 0 {
		return fmt.Errorf("%v as %v, in place: byte %d of %d is wrong", img.Shape, f, i, len(want))
	}
	return nil
}

// firstDifference returns where a and b differ, -1 if they do not.
func firstDifference(a, b []byte) int {
	if bytes.Equal(a, b) {
		return -1
	}
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

// TestRenderAllKinds renders every kind of image in every form, in sizes
// around those at which the loops, rows and blocks end.
func TestRenderAllKinds(t *testing.T) {
	sizes := [][2]int{{1, 1}, {1, 2}, {2, 1}, {3, 5}, {7, 9}, {8, 8}, {1, 31}, {33, 1}, {5, 257}, {40, 1030}}
	for _, f := range forms() {
		for _, s := range kinds() {
			for _, size := range sizes {
				s.Height, s.Width = size[0], size[1]
				if err := checkRender(f, raster.Image{Shape: s, Pix: noise(s.Bytes())}); err != nil {
					t.Error(err)
				}
			}
		}
	}
}

// TestPNGBlocksAndChunks renders images whose rows fill blocks and chunks just
// so, or one byte more or less.
func TestPNGBlocksAndChunks(t *testing.T) {
	for _, c := range []struct{ height, width, channels int }{
		{1, storedBytesMax - 1, 1}, // the row and its filter type fill one block
		{1, storedBytesMax - 2, 1},
		{1, storedBytesMax, 1},
		{2, storedBytesMax - 1, 1},
		{3, 70000, 1},
		{storedBytesMax, 2, 3},
		{blocksPerIDAT, storedBytesMax - 1, 1},     // one chunk, full
		{blocksPerIDAT + 1, storedBytesMax - 1, 1}, // and one of a single block
		{blocksPerIDAT * storedBytesMax / 5, 4, 1},
		{1025, 1023, 2},
		{1200, 1000, 4},
	} {
		s := raster.Shape{Height: c.height, Width: c.width, Channels: c.channels, DType: raster.Uint8, Color: raster.Color(c.channels)}
		for _, s.DType = range []raster.DType{raster.Uint8, raster.Uint16} {
			if s.DType == raster.Uint16 && s.Bytes() > 5<<20 {
				continue
			}
			if err := checkRender(Form{Container: PNG}, raster.Image{Shape: s, Pix: noise(s.Bytes())}); err != nil {
				t.Error(err)
			}
		}
	}
}

// drawShape draws a shape of a small image.
func drawShape(t *rapid.T) raster.Shape {
	s := rapid.SampledFrom(kinds()).Draw(t, "kind")
	s.Height = rapid.IntRange(1, 60).Draw(t, "height")
	s.Width = rapid.IntRange(1, 200).Draw(t, "width")
	return s
}

func TestRenderEqualsReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := rapid.SampledFrom(forms()).Draw(t, "form")
		s := drawShape(t)
		pix := make([]byte, s.Bytes())
		seed := rapid.SliceOfN(rapid.Byte(), 1, 64).Draw(t, "samples")
		for i := range pix {
			pix[i] = seed[i%len(seed)] + byte(i/len(seed))
		}
		if err := checkRender(f, raster.Image{Shape: s, Pix: pix}); err != nil {
			t.Fatal(err)
		}
	})
}

// TestHugeShapes: sizes are right up to the largest of all shapes, computed
// here without a limit, or the image is refused.
func TestHugeShapes(t *testing.T) {
	edges := rapid.OneOf(rapid.IntRange(1, raster.MaxEdge), rapid.IntRange(raster.MaxEdge-3, raster.MaxEdge), rapid.IntRange(1, 4))
	refused := 0
	rapid.Check(t, func(t *rapid.T) {
		f := rapid.SampledFrom(forms()).Draw(t, "form")
		s := rapid.SampledFrom(kinds()).Draw(t, "kind")
		s.Height, s.Width = edges.Draw(t, "height"), edges.Draw(t, "width")
		l, err := f.Layout(s)
		if err != nil {
			if !errors.Is(err, ErrCannotHold) && !errors.Is(err, raster.ErrShape) {
				t.Fatalf("%v as %v: %v", s, f, err)
			}
			if size := exactSize(f, s); size.IsInt64() && s.Check() == nil && holdsKind(f, s) {
				t.Fatalf("%v as %v would have %v bytes, refused: %v", s, f, size, err)
			}
			refused++
			return
		}
		if want := exactSize(f, s); want.Cmp(big.NewInt(l.Size())) != 0 {
			t.Fatalf("%v as %v: size %d, want %v", s, f, l.Size(), want)
		}
		if offset, ok := l.InPlace(); ok && (offset < 0 || offset > l.Size()-s.Bytes()) {
			t.Fatalf("%v as %v: in place at %d", s, f, offset)
		}
	})
	largest := raster.Shape{Height: raster.MaxEdge, Width: raster.MaxEdge - 1, Channels: 4, DType: raster.Uint16, Color: raster.RGBA}
	if _, err := (Form{Container: PNG}).Layout(largest); !errors.Is(err, ErrCannotHold) {
		t.Errorf("a PNG of more than 2⁶³ bytes: %v", err)
	}
	if l, err := (Form{}).Layout(largest); err != nil || l.Size() < math.MaxInt64-1<<34 {
		t.Errorf("the largest array: %d bytes, %v", l.Size(), err)
	}
	t.Logf("%d drawn shapes were refused", refused)
}

// holdsKind reports whether the form holds an image of one such pixel.
func holdsKind(f Form, s raster.Shape) bool {
	s.Height, s.Width = 1, 1
	_, err := f.Layout(s)
	return err == nil
}

// exactSize returns the size of a file without limits.
func exactSize(f Form, s raster.Shape) *big.Int {
	a := referenceArray(f, raster.Image{Shape: s})
	n := func(v int) *big.Int { return big.NewInt(int64(v)) }
	mul := func(a, b *big.Int) *big.Int { return new(big.Int).Mul(a, b) }
	add := func(a, b *big.Int) *big.Int { return new(big.Int).Add(a, b) }
	up := func(a *big.Int, b int) *big.Int {
		return new(big.Int).Div(add(a, n(b-1)), n(b))
	}
	samples := mul(mul(n(s.Height), n(s.Width)), n(a.channels*a.bytes))
	switch f.Container {
	case NPY:
		return add(samples, n(128))
	case PPM:
		return add(samples, n(len(fmt.Sprintf("P6\n%d %d\n%d\n", s.Width, s.Height, map[int]int{1: 255, 2: 65535}[a.bytes]))))
	case Raw:
		return samples
	}
	stream := add(samples, n(s.Height))
	blocks := up(stream, 65535)
	return add(add(add(stream, mul(blocks, n(5))), mul(up(blocks, 32), n(12))), n(8+25+2+4+12))
}

func TestRenderRefusesWrongLengths(t *testing.T) {
	for _, f := range forms() {
		s := raster.Shape{Height: 3, Width: 4, Channels: 3, DType: raster.Uint8, Color: raster.RGB}
		l, err := f.Layout(s)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct{ dst, pix int64 }{
			{l.Size() - 1, s.Bytes()}, {l.Size() + 1, s.Bytes()}, {0, s.Bytes()},
			{l.Size(), s.Bytes() - 1}, {l.Size(), s.Bytes() + 1}, {l.Size(), 0},
		} {
			if err := l.Render(make([]byte, c.dst), make([]byte, c.pix)); !errors.Is(err, ErrLength) {
				t.Errorf("%v: %d bytes into %d: %v", f, c.pix, c.dst, err)
			}
		}
	}
	if err := (Layout{}).Render(nil, nil); !errors.Is(err, ErrLength) {
		t.Errorf("the zero layout: %v", err)
	}
	for _, s := range []raster.Shape{{}, {Height: -1, Width: 1, Channels: 1, DType: raster.Uint8}, {Height: 1, Width: 1, Channels: 5, DType: raster.Uint8}} {
		if _, err := (Form{}).Layout(s); !errors.Is(err, raster.ErrShape) {
			t.Errorf("layout of %v: %v", s, err)
		}
	}
}

// TestRenderAllocatesNothing also says so of Layout, which listings call.
func TestRenderAllocatesNothing(t *testing.T) {
	for _, f := range forms() {
		for _, s := range kinds() {
			s.Height, s.Width = 40, 1030
			l, err := f.Layout(s)
			if err != nil {
				continue
			}
			dst, pix := make([]byte, l.Size()), noise(s.Bytes())
			allocs := testing.AllocsPerRun(10, func() {
				l, err := f.Layout(s)
				if err == nil {
					err = l.Render(dst, pix)
				}
				if err != nil {
					t.Error(err)
				}
			})
			if allocs != 0 {
				t.Errorf("%v as %v: %v allocations", s, f, allocs)
			}
		}
	}
}

// FuzzRender renders any image, in any form, and compares with the reference.
// The first two bytes are form and kind, the next two the edges.
func FuzzRender(f *testing.F) {
	for form := range len(forms()) {
		f.Add(byte(form), byte(4*form+1), uint16(3), uint16(5), []byte("samples of a picture"))
	}
	f.Add(byte(4), byte(0), uint16(1), uint16(65535), []byte{255})
	f.Fuzz(func(t *testing.T, form, kind byte, height, width uint16, seed []byte) {
		s := kinds()[int(kind)%len(kinds())]
		s.Height, s.Width = int(height), int(width)
		if s.Bytes() > 1<<18 || len(seed) == 0 {
			t.Skip("too large to be worth the time, or no samples")
		}
		pix := make([]byte, s.Bytes())
		for n := 0; n < len(pix); {
			n += copy(pix[n:], seed)
		}
		chosen := forms()[int(form)%len(forms())]
		if err := checkRender(chosen, raster.Image{Shape: s, Pix: pix}); err != nil && !errors.Is(err, raster.ErrShape) {
			t.Error(err)
		}
	})
}

// FuzzLayout fits any form to any shape, however impossible.
func FuzzLayout(f *testing.F) {
	f.Add(byte(0), false, false, false, 3, 4, 3, byte(1), byte(3))
	f.Add(byte(1), false, true, false, 1<<30, 1<<30, 4, byte(2), byte(4))
	f.Add(byte(2), false, false, true, -1, math.MaxInt, 2, byte(3), byte(0))
	f.Add(byte(9), true, true, true, 0, 0, 0, byte(9), byte(9))
	f.Fuzz(func(t *testing.T, container byte, chw, rgb, wide bool, height, width, channels int, dtype, color byte) {
		form := Form{Container(container), chw, rgb, wide}
		s := raster.Shape{Height: height, Width: width, Channels: channels, DType: raster.DType(dtype), Color: raster.Color(color)}
		l, err := form.Layout(s)
		if err != nil {
			if !errors.Is(err, ErrForm) && !errors.Is(err, ErrCannotHold) && !errors.Is(err, raster.ErrShape) {
				t.Errorf("%v as %v: %v", s, form, err)
			}
			return
		}
		if want := exactSize(form, s); want.Cmp(big.NewInt(l.Size())) != 0 {
			t.Errorf("%v as %v: size %d, want %v", s, form, l.Size(), want)
		}
	})
}

// TestByteOrder spells one file of each order out.
func TestByteOrder(t *testing.T) {
	img := raster.Image{
		Shape: raster.Shape{Height: 1, Width: 2, Channels: 1, DType: raster.Uint16, Color: raster.Grey},
		Pix:   binary.LittleEndian.AppendUint16(binary.LittleEndian.AppendUint16(nil, 0x0102), 0xfffe),
	}
	for form, want := range map[Form]string{
		{Container: Raw}:                       "\x02\x01\xfe\xff",
		{Container: Raw, RGB: true}:            "\x01\x01\x01\xff\xff\xff",
		{Container: Raw, RGB: true, CHW: true}: "\x01\xff\x01\xff\x01\xff",
		{Container: PPM, Wide: true}:           "P5\n2 1\n65535\n\x01\x02\xff\xfe",
		{Container: PPM, RGB: true}:            "P6\n2 1\n255\n\x01\x01\x01\xff\xff\xff",
	} {
		if got, err := render(form, img); err != nil || string(got) != want {
			t.Errorf("%v: %q (%v), want %q", form, got, err, want)
		}
	}
}
