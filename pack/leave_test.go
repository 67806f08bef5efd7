package pack

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"image"
	"image/color"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"prismfs/internal/imagefile"
	"prismfs/l3"
	"prismfs/raster"
)

var auto = Options{Mode: l3.ModeAuto}

// wallpaper is noise that repeats: next to nothing for PNG, which knows what it
// has seen, and incompressible for what predicts from neighbours.
func wallpaper(width, height, seed int) *image.NRGBA {
	const tile = 8
	random := noise(4*tile, tile, seed)
	m := image.NewNRGBA(image.Rect(0, 0, width, height))
	for y := range height {
		for x := range width {
			c := random.NRGBAAt(x%(4*tile), y%tile)
			m.SetNRGBA(x, y, color.NRGBA{c.R, c.G, c.B, 255})
		}
	}
	return m
}

// photograph is an image that every coding makes smaller than PNG does.
func photograph(width, height, seed int) *image.NRGBA {
	m := picture(width, height, seed)
	random := noise(width, height, seed)
	for i := range m.Pix {
		if i%4 != 3 {
			m.Pix[i] = m.Pix[i]/2 + random.Pix[i]%16
		}
	}
	return m
}

// papered is a source with one image that is left as it is, one that is packed,
// and another file.
func papered(t testing.TB) (src, dst string) {
	t.Helper()
	src, dst = filepath.Join(t.TempDir(), "src"), filepath.Join(t.TempDir(), "dst")
	writeTree(t, src, map[string][]byte{
		"a/paper.png": encodePNG(t, wallpaper(256, 256, 1)), "a/photo.png": encodePNG(t, photograph(100, 80, 2)), "README": []byte("text"),
	})
	for _, name := range names(t, src) {
		setTime(t, filepath.Join(src, name), time.Unix(1700000000, 987654321))
	}
	return src, dst
}

func TestAutoLeavesWhatIsSmallerAsItIs(t *testing.T) {
	src, dst := papered(t)
	s := mustPack(t, src, dst, auto)
	if s.Converted.Files != 1 || s.Passed.Files != 2 || s.AlreadyThere != 0 {
		t.Errorf("%v", s)
	}
	if diff := cmp.Diff([]string{"README", "a/paper.png", "a/photo.l3"}, names(t, dst)); diff != "" {
		t.Errorf("outputs:\n%s", diff)
	}
	source, err := os.ReadFile(filepath.Join(src, "a/paper.png"))
	if err != nil {
		t.Fatal(err)
	}
	if copied, err := os.ReadFile(filepath.Join(dst, "a/paper.png")); err != nil || !bytes.Equal(copied, source) {
		t.Errorf("the copy differs: %v", err)
	}
	if len(s.Left) != 1 || s.Left[0].Path != "a/paper.png" || s.Left[0].Bytes != int64(len(source)) || !betterLeft(s.Left[0].Bytes, s.Left[0].PackedBytes) {
		t.Errorf("left: %+v", s.Left)
	}
	if notes := strings.Join(s.Notes, "\n"); !strings.Contains(notes, "1 image was left as it is") {
		t.Errorf("notes: %s", notes)
	}
	samePixelsAs(t, filepath.Join(dst, "a/photo.l3"), filepath.Join(src, "a/photo.png"))
}

func TestLeftImagesAreRecognised(t *testing.T) {
	src, dst := papered(t)
	first := mustPack(t, src, dst, auto)
	before := listing(t, dst)
	second := mustPack(t, src, dst, auto)
	if second.AlreadyThere != 3 || second.Replaced != 0 || first.Converted != second.Converted || first.Passed != second.Passed || len(second.Left) != 1 {
		t.Errorf("first %v, second %v", first, second)
	}
	after := listing(t, dst)
	delete(before, ".") // the folder's time changes with the marker
	delete(after, ".")
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("the destination changed:\n%s", diff)
	}
	// A killed run, after which the machine went down.
	writeTree(t, dst, map[string][]byte{Marker: []byte(markerText)})
	damageTail(t, filepath.Join(dst, "a/paper.png"))
	third := mustPack(t, src, dst, auto)
	if third.AlreadyThere != 2 || third.Replaced != 1 || len(third.Left) != 1 {
		t.Errorf("after a killed run: %v", third)
	}
	samePNG(t, src, dst)
}

func samePNG(t *testing.T, src, dst string) {
	t.Helper()
	a, errA := os.ReadFile(filepath.Join(src, "a/paper.png"))
	b, errB := os.ReadFile(filepath.Join(dst, "a/paper.png"))
	if err := errors.Join(errA, errB); err != nil || !bytes.Equal(a, b) {
		t.Errorf("the copy differs: %v", err)
	}
}

// An image is in the destination once, whatever modes it was packed in.
func TestModesFollowEachOther(t *testing.T) {
	src, dst := papered(t)
	photo, packed := []string{"README", "a/paper.png", "a/photo.l3"}, []string{"README", "a/paper.l3", "a/photo.l3"}
	for i, step := range []struct {
		mode              l3.Mode
		outputs           []string
		paper, photo      l3.Coding // of those packed
		already, replaced int
	}{
		{l3.ModeAuto, photo, 0, l3.Dense8, 0, 0},
		{l3.ModeFast, packed, l3.Raw, l3.Fast8, 1, 2},
		{l3.ModeFast, packed, l3.Raw, l3.Fast8, 3, 0},
		{l3.ModeAuto, photo, 0, l3.Dense8, 1, 2},
		{l3.ModeDense, packed, l3.Dense8, l3.Dense8, 2, 1},
		{l3.ModeDense, packed, l3.Dense8, l3.Dense8, 3, 0},
		{l3.ModeAuto, photo, 0, l3.Dense8, 2, 1},
	} {
		s := mustPack(t, src, dst, Options{Mode: step.mode})
		if s.AlreadyThere != step.already || s.Replaced != step.replaced || len(s.Refused) != 0 {
			t.Errorf("step %d: %v", i, s)
		}
		if diff := cmp.Diff(step.outputs, names(t, dst)); diff != "" {
			t.Fatalf("step %d, outputs:\n%s", i, diff)
		}
		info, _ := decodeOutput(t, filepath.Join(dst, "a/photo.l3"))
		if info.Coding != step.photo {
			t.Errorf("step %d: the photo is %v", i, info.Coding)
		}
		if len(s.Left) == 1 {
			samePNG(t, src, dst)
		} else if info := samePixelsAs(t, filepath.Join(dst, "a/paper.l3"), filepath.Join(src, "a/paper.png")); info.Coding != step.paper {
			t.Errorf("step %d: the paper is %v", i, info.Coding)
		}
	}
}

// regions is a label map.
func regions(width, height int) *image.Gray {
	m := image.NewGray(image.Rect(0, 0, width, height))
	for y := range height {
		for x := range width {
			dx, dy := x-width/2, y-height/2
			m.Pix[y*m.Stride+x] = uint8((dx*dx+dy*dy)/3000 + 7*(x/50))
		}
	}
	return m
}

// Label maps are packed as such whatever they were before.
func TestAutoOfLabelMaps(t *testing.T) {
	src, dst := filepath.Join(t.TempDir(), "src"), filepath.Join(t.TempDir(), "dst")
	writeTree(t, src, map[string][]byte{"a/map.png": encodePNG(t, regions(300, 200))})
	for i, step := range []struct {
		mode     l3.Mode
		coding   l3.Coding
		replaced int
	}{
		{l3.ModeAuto, l3.Labels, 0}, {l3.ModeAuto, l3.Labels, 0}, {l3.ModeDense, l3.Dense8, 1}, {l3.ModeAuto, l3.Labels, 1},
		{l3.ModeFast, l3.Fast8, 1}, {l3.ModeAuto, l3.Labels, 1}, {l3.ModeLabels, l3.Labels, 0}, {l3.ModeAuto, l3.Labels, 0},
	} {
		s := mustPack(t, src, dst, Options{Mode: step.mode})
		info := samePixelsAs(t, filepath.Join(dst, "a/map.l3"), filepath.Join(src, "a/map.png"))
		if info.Coding != step.coding || s.Replaced != step.replaced || s.Converted.Files != 1 {
			t.Errorf("step %d: %v, %v", i, info.Coding, s)
		}
	}
}

// The coding of an earlier output says whether it stays.
func TestFits(t *testing.T) {
	colour := raster.Shape{Height: 100, Width: 100, Channels: 3, DType: raster.Uint8, Color: raster.RGB}
	grey, deep := colour, colour
	grey.Channels, grey.Color = 1, raster.Grey
	deep.DType = raster.Uint16
	const source = 20_000
	for _, c := range []struct {
		mode   l3.Mode
		coding l3.Coding
		shape  raster.Shape
		bytes  int64 // of the output
		want   fit
	}{
		{l3.ModeFast, l3.Fast8, colour, 20_000, yes},
		{l3.ModeFast, l3.Fast16, deep, 20_000, yes},
		{l3.ModeFast, l3.Raw, colour, 30_000, perhaps},
		{l3.ModeFast, l3.Dense8, colour, 20_000, no},
		{l3.ModeFast, l3.Published, colour, 20_000, no},
		{l3.ModeRaw, l3.Raw, colour, 30_000, yes},
		{l3.ModeRaw, l3.Fast8, colour, 20_000, no},
		{l3.ModePublished, l3.Published, colour, 20_000, yes},
		{l3.ModePublished, l3.Raw, colour, 30_000, no},
		{l3.ModeDense, l3.Dense8, colour, 20_000, yes},
		{l3.ModeDense, l3.Dense16, deep, 20_000, yes},
		{l3.ModeDense, l3.Labels, grey, 5_000, no},
		{l3.ModeLabels, l3.Labels, grey, 5_000, yes},
		{l3.ModeLabels, l3.Dense8, grey, 5_000, no},
		{l3.ModeAuto, l3.Dense8, colour, 20_000, yes},
		{l3.ModeAuto, l3.Dense8, colour, 25_001, perhaps}, // perhaps better left
		{l3.ModeAuto, l3.Dense16, deep, 20_000, yes},
		{l3.ModeAuto, l3.Dense8, grey, 5_000, yes},
		{l3.ModeAuto, l3.Dense8, grey, 1_000, perhaps}, // perhaps a label map
		{l3.ModeAuto, l3.Labels, grey, 1_000, yes},
		{l3.ModeAuto, l3.Labels, grey, 5_000, perhaps}, // perhaps no label map
		{l3.ModeAuto, l3.Fast8, colour, 20_000, perhaps},
		{l3.ModeAuto, l3.Raw, colour, 20_000, perhaps},
		{l3.ModeAuto, l3.Published, colour, 20_000, no},
	} {
		p := &packer{opt: Options{Mode: c.mode}}
		info := l3.Info{Coding: c.coding, Shape: c.shape, FileBytes: c.bytes}
		if got := p.fits(info, source); got != c.want {
			t.Errorf("mode %d, %v of %v, %d bytes: %d, expected %d", c.mode, c.coding, c.shape, c.bytes, got, c.want)
		}
	}
}

// What stands in the way of an image is treated as that of any other file.
func TestLeftImagesAfterChanges(t *testing.T) {
	newer, older := time.Unix(1800000000, 0), time.Unix(1600000000, 0)
	for _, c := range []struct {
		name              string
		change            func(t *testing.T, src, dst string)
		mode              l3.Mode
		already, replaced int
		refused           []string
		outputs           []string
	}{
		{"a newer source", func(t *testing.T, src, _ string) {
			writeTree(t, src, map[string][]byte{"a/paper.png": encodePNG(t, wallpaper(256, 256, 9))})
			setTime(t, filepath.Join(src, "a/paper.png"), newer)
		}, l3.ModeAuto, 2, 1, nil, []string{"README", "a/paper.png", "a/photo.l3"}},
		{"a newer source that is better packed", func(t *testing.T, src, _ string) {
			writeTree(t, src, map[string][]byte{"a/paper.png": encodePNG(t, photograph(100, 80, 3))})
			setTime(t, filepath.Join(src, "a/paper.png"), newer)
		}, l3.ModeAuto, 2, 1, nil, []string{"README", "a/paper.l3", "a/photo.l3"}},
		{"a packed image that is better left now", func(t *testing.T, src, _ string) {
			writeTree(t, src, map[string][]byte{"a/photo.png": encodePNG(t, wallpaper(256, 256, 9))})
			setTime(t, filepath.Join(src, "a/photo.png"), newer)
		}, l3.ModeAuto, 2, 1, nil, []string{"README", "a/paper.png", "a/photo.png"}},
		{"a copy that was edited", func(t *testing.T, _, dst string) {
			writeTree(t, dst, map[string][]byte{"a/paper.png": []byte("edited")})
			setTime(t, filepath.Join(dst, "a/paper.png"), newer)
		}, l3.ModeAuto, 2, 0, []string{"a/paper.png"}, []string{"README", "a/paper.png", "a/photo.l3"}},
		{"an edited copy and another mode", func(t *testing.T, _, dst string) {
			writeTree(t, dst, map[string][]byte{"a/paper.png": []byte("edited")})
			setTime(t, filepath.Join(dst, "a/paper.png"), newer)
		}, l3.ModeDense, 2, 0, nil, []string{"README", "a/paper.l3", "a/paper.png", "a/photo.l3"}},
		{"a copy whose time was lost, and another mode", func(t *testing.T, _, dst string) {
			setTime(t, filepath.Join(dst, "a/paper.png"), newer)
		}, l3.ModeDense, 2, 1, nil, []string{"README", "a/paper.l3", "a/photo.l3"}},
		{"an older file of somebody else beside an image", func(t *testing.T, _, dst string) {
			writeTree(t, dst, map[string][]byte{"a/photo.png": []byte("mine")})
			setTime(t, filepath.Join(dst, "a/photo.png"), older)
		}, l3.ModeAuto, 3, 0, nil, []string{"README", "a/paper.png", "a/photo.l3", "a/photo.png"}},
		{"the same beside one that a killed run has packed", func(t *testing.T, _, dst string) {
			writeTree(t, dst, map[string][]byte{"a/photo.png": []byte("as it was"), Marker: []byte(markerText)})
			setTime(t, filepath.Join(dst, "a/photo.png"), older)
		}, l3.ModeAuto, 3, 0, nil, []string{"README", "a/paper.png", "a/photo.l3"}},
		{"an image of somebody else in the place", func(t *testing.T, src, dst string) {
			if err := os.Remove(filepath.Join(dst, "a/paper.png")); err != nil {
				t.Fatal(err)
			}
			writeTree(t, dst, map[string][]byte{"a/paper.l3": []byte("mine")})
			setTime(t, filepath.Join(dst, "a/paper.l3"), older)
		}, l3.ModeAuto, 2, 0, []string{"a/paper.png"}, []string{"README", "a/paper.l3", "a/photo.l3"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			src, dst := papered(t)
			mustPack(t, src, dst, auto)
			c.change(t, src, dst)
			s := mustPack(t, src, dst, Options{Mode: c.mode})
			if s.AlreadyThere != c.already || s.Replaced != c.replaced {
				t.Errorf("%v", s)
			}
			if diff := cmp.Diff(append([]string{}, c.refused...), refusedPaths(s)); diff != "" {
				t.Errorf("refused:\n%s", diff)
			}
			if diff := cmp.Diff(c.outputs, names(t, dst)); diff != "" {
				t.Errorf("outputs:\n%s", diff)
			}
		})
	}
}

// Lossy files are packed whatever it costs, and files that readers would not
// know as images too.
func TestWhatIsNotLeft(t *testing.T) {
	p := &packer{opt: auto}
	webp := func(chunks ...string) []byte {
		out := "RIFF\x00\x00\x00\x00WEBP"
		for _, c := range chunks {
			out += c + "\x03\x00\x00\x00abc\x00"
		}
		return []byte(out)
	}
	for _, c := range []struct {
		name   string
		format imagefile.Format
		data   []byte
		want   bool
	}{
		{"x.png", imagefile.PNG, nil, true},
		{"x.JPG", imagefile.PNG, nil, true}, // readers go by content
		{"x", imagefile.PNG, nil, false},
		{"scan.001", imagefile.PNG, nil, false},
		{"x.jpg", imagefile.JPEG, nil, false},
		{"x.tiff", imagefile.TIFF, nil, true},
		{"x.webp", imagefile.WebP, webp("VP8L"), true},
		{"x.webp", imagefile.WebP, webp("VP8X", "ICCP", "VP8L"), true},
		{"x.webp", imagefile.WebP, webp("VP8 "), false},
		{"x.webp", imagefile.WebP, webp("VP8X", "ALPH", "VP8 "), false},
		{"x.webp", imagefile.WebP, webp("VP8X"), false},
		{"x.webp", imagefile.WebP, webp("VP8X")[:20], false},
		{"x.webp", imagefile.WebP, append(webp(), "ICCP\xff\xff\xff\xff"...), false},
	} {
		if got := p.mayLeave(c.name, c.format, c.data); got != c.want {
			t.Errorf("%s, %v, %.40q: %v", c.name, c.format, c.data, got)
		}
	}
	if p.opt.Mode = l3.ModeDense; p.mayLeave("x.png", imagefile.PNG, nil) {
		t.Error("another mode leaves images")
	}
}

func TestBetterLeft(t *testing.T) {
	for _, c := range []struct {
		source, packed int64
		want           bool
	}{
		{100, 4000, false}, // a difference that takes no other block
		{100, 4197, true},
		{100_000, 125_000, false},
		{100_000, 125_001, true},
		{100_000, 90_000, false},
	} {
		if got := betterLeft(c.source, c.packed); got != c.want {
			t.Errorf("%d packed as %d: %v", c.source, c.packed, got)
		}
	}
}

func TestToolsKnowLeftImages(t *testing.T) {
	src, dst := papered(t)
	mustPack(t, src, dst, auto)
	ctx := context.Background()
	r, err := Inspect(ctx, dst)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Count{{"PNG", 1}}, r.Tree.PlainImages); diff != "" || r.Tree.OtherFiles != 2 || r.Tree.Samples != 1 {
		t.Errorf("%+v\n%s", r.Tree, diff)
	}
	v, err := Verify(ctx, dst, VerifyOptions{})
	if err != nil || v.Samples != 2 || v.Good != 2 || v.PlainImages != 1 || v.OtherFiles != 1 || len(v.Bad) != 0 {
		t.Errorf("%+v, %v", v, err)
	}
	back := filepath.Join(t.TempDir(), "back")
	s, err := Unpack(ctx, dst, back, UnpackOptions{})
	if err != nil || s.Converted.Files != 1 || s.Passed.Files != 2 || len(s.Refused) != 0 {
		t.Errorf("%v, %v", s, err)
	}
	samePNG(t, src, back)
	damageTail(t, filepath.Join(dst, "a/paper.png"))
	if v, err := Verify(ctx, dst, VerifyOptions{}); err != nil || len(v.Bad) != 1 || v.Bad[0].Path != "a/paper.png" || v.Good != 1 {
		t.Errorf("after damage: %+v, %v", v, err)
	}
}

func TestLeftImageAsJSON(t *testing.T) {
	for _, c := range []struct {
		left LeftImage
		want string
	}{
		{LeftImage{"a/b.png", 10, 20000}, `{"path":"a/b.png","bytes":10,"packed_bytes":20000}`},
		{LeftImage{"\xe9.png", 10, 0}, `{"path":"\ufffd.png","path_base64":"6S5wbmc=","bytes":10}`},
	} {
		if got, err := json.Marshal(c.left); err != nil || string(got) != c.want {
			t.Errorf("%s, %v", got, err)
		}
	}
}

// That PNG images grow is said in every mode, with the remedy where there is one.
func TestGrownPNGs(t *testing.T) {
	for _, c := range []struct {
		name  string
		mode  l3.Mode
		image image.Image
		part  string // of the note, "" for none
	}{
		{"fast", l3.ModeFast, wallpaper(256, 256, 1), "--mode auto takes the smallest"},
		{"dense", l3.ModeDense, wallpaper(256, 256, 1), "--mode auto takes the smallest"},
		{"published", l3.ModePublished, wallpaper(256, 256, 1), "--mode auto takes the smallest"},
		{"auto, left as it is", l3.ModeAuto, wallpaper(256, 256, 1), ""},
		{"auto, too small to be left", l3.ModeAuto, wallpaper(32, 32, 1), "the smallest coding is taken already"},
		{"a photograph", l3.ModeDense, photograph(100, 80, 2), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			src := filepath.Join(t.TempDir(), "src")
			writeTree(t, src, map[string][]byte{"a/image.png": encodePNG(t, c.image)})
			s := mustPack(t, src, filepath.Join(t.TempDir(), "dst"), Options{Mode: c.mode})
			notes := strings.Join(s.Notes, "\n")
			if strings.Contains(notes, "PNG images became ") != (c.part != "") || !strings.Contains(notes, c.part) {
				t.Errorf("%+v, notes: %s", s.Converted, notes)
			}
			if c.mode == l3.ModeAuto && strings.Contains(notes, "--mode auto") {
				t.Errorf("auto names itself as remedy: %s", notes)
			}
		})
	}
}

// How many images a mode cannot hold is counted, without what auto refuses too.
func TestNotHeld(t *testing.T) {
	grey := image.NewGray(image.Rect(0, 0, 64, 64))
	for _, c := range []struct {
		mode  l3.Mode
		count int
		note  string
	}{
		{l3.ModeLabels, 3, "3 of the refused files are images of a kind that --mode labels cannot hold: --mode auto packs them"},
		{l3.ModePublished, 3, "3 of the refused files are images of a kind that --mode published cannot hold: --mode auto packs them"},
		{l3.ModeAuto, 0, ""},
	} {
		src := filepath.Join(t.TempDir(), "src")
		writeTree(t, src, map[string][]byte{
			"a/grey.png": encodePNG(t, grey), "a/odd.png": encodePNG(t, photograph(33, 17, 1)), "a/whole.png": encodePNG(t, photograph(64, 64, 2)),
			"a/empty.png": nil, "b/again.png": encodePNG(t, photograph(33, 17, 3)),
		})
		s := mustPack(t, src, filepath.Join(t.TempDir(), "dst"), Options{Mode: c.mode})
		notes := strings.Join(s.Notes, "\n")
		if s.NotHeld != c.count || !strings.Contains(notes, c.note) || strings.Contains(notes, "cannot hold") != (c.note != "") {
			t.Errorf("mode %v: %d not held, refused %v, notes: %s", c.mode, s.NotHeld, s.Refused, notes)
		}
	}
}
