package jpeg

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"prismfs/internal/testfiles"
	"prismfs/raster"
)

// samePixels fails unless a transcoded image is progressive, Huffman-coded, and
// has the pixels of its source.
func samePixels(t *testing.T, name string, src, out []byte) {
	t.Helper()
	want, err := Decode(src, Options{})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	got, err := Decode(out, Options{})
	if err != nil {
		t.Errorf("%s, transcoded: %v", name, err)
		return
	}
	if !got.Header.Progressive || got.Header.Arithmetic || got.Header.Components != want.Header.Components {
		t.Errorf("%s became %+v", name, got.Header)
	}
	if got.Shape != want.Shape || !bytes.Equal(got.Pix, want.Pix) {
		t.Errorf("%s: other pixels when it is transcoded", name)
	}
	if !bytes.Equal(got.Profile, want.Profile) {
		t.Errorf("%s: a profile of %d bytes became one of %d", name, len(want.Profile), len(got.Profile))
	}
}

// What can be decoded can be transcoded, and has the same pixels then; what
// cannot be decoded is refused in the same words.
func TestTranscodeFiles(t *testing.T) {
	for _, row := range expected(t) {
		src := read(t, row[0])
		out, err := Transcode(src, Options{})
		if kind := kinds[row[1]]; kind != nil {
			if !errors.Is(err, kind) {
				t.Errorf("%s: %v, want %v", row[0], err, kind)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", row[0], err)
			continue
		}
		samePixels(t, row[0], src, out)
	}
}

// A progressive JPEG that lacks scans is smoothed by decoders, so it stays as
// it is.
func TestTranscodeIncomplete(t *testing.T) {
	for _, file := range []string{"scans-1.jpg", "scans-2.jpg", "scans-5.jpg"} {
		src := read(t, file)
		out, err := Transcode(src, Options{})
		if err != nil || !bytes.Equal(out, src) {
			t.Errorf("%s: %d bytes became %d, %v", file, len(src), len(out), err)
		}
	}
	src := read(t, "scans-5.jpg")
	out, err := Transcode(read(t, "rgb-420-progressive.jpg"), Options{})
	if err != nil || len(out) <= len(src) {
		t.Errorf("all scans: %d bytes, %v", len(out), err)
	}
}

// The scans are those of jpegtran -progressive.
func TestTranscodeScans(t *testing.T) {
	for file, want := range map[string]int{
		"grey.jpg": 6, "rgb-420.jpg": 10, "rgb-444-progressive.jpg": 10, "rgb-coded.jpg": 14, "cmyk.jpg": 18, "ycck.jpg": 18,
	} {
		out, err := Transcode(read(t, file), Options{})
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		if got := bytes.Count(out, []byte("\xff\xda")); got != want {
			t.Errorf("%s: %d scans, want %d", file, got, want)
		}
	}
}

// Sampling factors of more than 10 blocks an MCU are legal where each component
// has a scan of its own, and cannot be interleaved.
func TestTranscodeWideSampling(t *testing.T) {
	// Scans of each component alone do not depend on the sampling factors of a
	// picture whose components are all of its size: 2×2 means the same as 1×1.
	src := bytes.Clone(read(t, "noninterleaved.jpg"))
	frame := bytes.Index(src, []byte("\xff\xc2"))
	for c := range 3 {
		if src[frame+11+3*c] != 0x11 {
			t.Fatal("the source is subsampled")
		}
		src[frame+11+3*c] = 0x22
	}
	out, err := Transcode(src, Options{})
	if err != nil {
		t.Fatal(err)
	}
	samePixels(t, "2×2 2×2 2×2", src, out)
	if got := bytes.Count(out, []byte("\xff\xda")); got != 10+2*2 {
		t.Errorf("%d scans, want 14: two interleaved ones are parted", got)
	}
}

// withSegment puts a marker segment behind SOI.
func withSegment(jpeg []byte, code byte, body []byte) []byte {
	out := []byte{0xff, 0xd8, 0xff, code}
	out = binary.BigEndian.AppendUint16(out, uint16(len(body)+2))
	out = append(out, body...)
	return append(out, jpeg[2:]...)
}

// exif returns EXIF data of one orientation.
func exif(order binary.AppendByteOrder, orientation uint16) []byte {
	b := []byte("Exif\x00\x00II*\x00")
	if order == binary.AppendByteOrder(binary.BigEndian) {
		b = []byte("Exif\x00\x00MM\x00*")
	}
	b = order.AppendUint32(b, 8) // the first folder
	b = order.AppendUint16(b, 2) // entries
	for _, entry := range [][2]uint16{{0x0100, 77}, {0x0112, orientation}} {
		b = order.AppendUint16(b, entry[0])
		b = order.AppendUint16(b, 3) // SHORT
		b = order.AppendUint32(b, 1)
		b = order.AppendUint16(b, entry[1])
		b = order.AppendUint16(b, 0)
	}
	return order.AppendUint32(b, 0)
}

func TestTranscodeMarkers(t *testing.T) {
	base := read(t, "rgb-420.jpg")
	for _, c := range []struct {
		name string
		src  []byte
		find string
		kept bool
	}{
		{"EXIF that turns", withSegment(base, 0xe1, exif(binary.LittleEndian, 6)), "Exif\x00\x00", true},
		{"EXIF that turns, big-endian", withSegment(base, 0xe1, exif(binary.BigEndian, 8)), "Exif\x00\x00", true},
		{"EXIF as stored", withSegment(base, 0xe1, exif(binary.LittleEndian, 1)), "Exif\x00\x00", false},
		{"EXIF of a false orientation", withSegment(base, 0xe1, exif(binary.LittleEndian, 9)), "Exif\x00\x00", false},
		{"a comment", withSegment(base, 0xfe, []byte("a comment")), "a comment", false},
		{"XMP", withSegment(base, 0xe1, []byte("http://ns.adobe.com/xap")), "xap", false},
		{"a profile", read(t, "profile.jpg"), "ICC_PROFILE\x00", true},
		{"JFIF", base, "JFIF\x00", true},
		{"Adobe", read(t, "cmyk.jpg"), "Adobe", true},
	} {
		out, err := Transcode(c.src, Options{})
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got := bytes.Contains(out, []byte(c.find)); got != c.kept {
			t.Errorf("%s: kept: %v, want %v", c.name, got, c.kept)
		}
		samePixels(t, c.name, c.src, out)
	}
}

func TestExifOrientation(t *testing.T) {
	base := read(t, "rgb-420.jpg")
	whole := exif(binary.LittleEndian, 6)
	for n := range whole {
		if got := exifOrientation(withSegment(base, 0xe1, whole[:n])); got != 0 && n < len(whole)-8 {
			t.Errorf("the first %d bytes give orientation %d", n, got)
		}
	}
	if got := exifOrientation(withSegment(base, 0xe1, whole)); got != 6 {
		t.Errorf("orientation %d, want 6", got)
	}
	if got := exifOrientation(base); got != 0 {
		t.Errorf("orientation %d without EXIF", got)
	}
}

func TestTranscodeLimits(t *testing.T) {
	data := read(t, "rgb-420.jpg")
	if _, err := Transcode(data, Options{MaxPixels: 67*45 - 1}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("above the limit on pixels: %v", err)
	}
	if _, err := Transcode(data, Options{MaxMemory: 4096}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("above the limit on memory: %v", err)
	}
	if _, err := Transcode(repeatedScans(t, 2048, 2048, 2*minScanLimit), Options{TolerateWarnings: true}); err == nil {
		t.Error("warnings were tolerated")
	}
	if _, err := Transcode(nil, Options{}); !errors.Is(err, ErrTruncated) {
		t.Errorf("no data: %v", err)
	}
}

// The rows of the cases that are JPEGs which can be decoded.
func TestTranscodeCases(t *testing.T) {
	dir := testfiles.Shared(t, "cases/files")
	files, err := filepath.Glob(filepath.Join(dir, "*.jpg"))
	if err != nil {
		t.Fatal(err)
	}
	done := 0
	for _, file := range files {
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(file)
		_, refused := Decode(src, Options{})
		out, err := Transcode(src, Options{})
		if refused != nil {
			if err == nil {
				t.Errorf("%s: decoding says %v, transcoding nothing", name, refused)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		samePixels(t, name, src, out)
		done++
	}
	if done < 15 {
		t.Errorf("only %d files were transcoded", done)
	}
}

// Photographs as cameras and the web make them.
func TestTranscodePhotos(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(testfiles.Shared(t, "data/photos/class0"), "*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d photos, %v", len(files), err)
	}
	for _, file := range files {
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		out, err := Transcode(src, Options{})
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		samePixels(t, filepath.Base(file), src, out)
	}
}

func TestEncodeProgressive(t *testing.T) {
	for _, c := range []struct{ source, want string }{
		{"rgb-420.jpg", "encoded-rgb-90.jpg"},
		{"grey.jpg", "encoded-grey-90.jpg"},
	} {
		src, err := Decode(read(t, c.source), Options{})
		if err != nil {
			t.Fatal(err)
		}
		got, err := EncodeProgressive(src.Image, EncodeOptions{Quality: 90})
		if err != nil {
			t.Errorf("%s: %v", c.source, err)
			continue
		}
		// What PIL makes of the same pixels at this quality.
		if want := read(t, c.want); !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes, want the %d of %s", c.source, len(got), len(want), c.want)
		}
	}
	img := raster.Image{
		Shape: raster.Shape{Height: 1, Width: 1, Channels: 3, DType: raster.Uint8, Color: raster.RGB},
		Pix:   []byte{1, 2, 3},
	}
	profile := []byte(strings.Repeat("profile", 20000))
	out, err := EncodeProgressive(img, EncodeOptions{Quality: 1, Profile: profile})
	if err != nil {
		t.Fatal(err)
	}
	if d, err := Decode(out, Options{}); err != nil || !bytes.Equal(d.Profile, profile) {
		t.Errorf("the profile did not come back: %v", err)
	}
}

func TestEncodeRefuses(t *testing.T) {
	shape := raster.Shape{Height: 2, Width: 2, Channels: 3, DType: raster.Uint8, Color: raster.RGB}
	with := func(change func(*raster.Shape)) raster.Image {
		s := shape
		change(&s)
		return raster.Image{Shape: s, Pix: make([]byte, max(s.Bytes(), 0))}
	}
	for name, img := range map[string]raster.Image{
		"no samples": {Shape: shape},
		"no width":   with(func(s *raster.Shape) { s.Width = 0 }),
		"16 bits":    with(func(s *raster.Shape) { s.DType = raster.Uint16 }),
		"alpha":      with(func(s *raster.Shape) { s.Channels, s.Color = 4, raster.RGBA }),
		"too wide":   with(func(s *raster.Shape) { s.Width = 65501 }),
	} {
		var bad *Error
		if _, err := EncodeProgressive(img, EncodeOptions{Quality: 90}); !errors.As(err, &bad) {
			t.Errorf("%s: %v", name, err)
		}
	}
	good := with(func(*raster.Shape) {})
	for _, quality := range []int{-1, 0, 101} {
		if _, err := EncodeProgressive(good, EncodeOptions{Quality: quality}); err == nil {
			t.Errorf("quality %d was taken", quality)
		}
	}
}

// Whatever is transcoded has the pixels of its source.
func FuzzTranscode(f *testing.F) {
	for _, row := range expected(f) {
		f.Add(read(f, row[0]))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		opt := Options{MaxPixels: 1 << 16, MaxMemory: 64 << 20}
		out, err := Transcode(data, opt)
		if err != nil {
			var bad *Error
			if !errors.As(err, &bad) || bad.Kind == nil || bad.Text == "" {
				t.Errorf("%v is no complete Error", err)
			}
			return
		}
		want, err := Decode(data, opt)
		if err != nil {
			return // what decoding complains of is its own affair
		}
		got, err := Decode(out, opt)
		if err != nil {
			t.Fatalf("what was transcoded cannot be decoded: %v", err)
		}
		if got.Shape != want.Shape || !bytes.Equal(got.Pix, want.Pix) {
			t.Error("other pixels")
		}
	})
}
