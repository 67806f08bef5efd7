package pack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"prismfs/internal/imagefile"
	"prismfs/l3"
	"prismfs/raster"
	"prismfs/tensor"
)

// UnpackOptions say how Unpack works. The zero value is good.
type UnpackOptions struct {
	Jobs  int  // images at a time; 0: as many as there are processors
	Force bool // replace existing files that hold something else
	// Progress, unless nil, is called after every file, never twice at once.
	// The total is 0 until it is known.
	Progress func(done, total int)
}

// Unpack restores images from the L3 files, or the records, of folder src into
// folder dst. Folders of records may lie in folders below src, as train and val
// do. An image of a record becomes a JPEG, progressive, of full fidelity,
// under its original name if that is a JPEG's, else with the suffix .jpg in place of
// the other, or behind it where there are two of that name. Any other
// image becomes a PNG with its colour profile, unless its samples are int16 or
// its channels have no meaning that PNG could name, or the source was a .npy: it
// becomes a .npy then. The name is that of the L3 file with the suffix changed:
// img.l3 becomes img.png, or IMG.PNG where that was the name of the source.
// Other files are copied.
//
// A file that exists and holds the same pixels stays, any other is in the way
// and its sample refused, unless Force is set. Errors and summary are as
// Pack's; a src without anything packed is a NotPackedError. Of a dataset that is
// not finished Unpack restores what is there, and the summary says so.
func Unpack(ctx context.Context, src, dst string, opt UnpackOptions) (*Summary, error) {
	source, err := apart(src, dst)
	if err != nil {
		return nil, err
	}
	if holdsPCR(source) {
		return unpackPCR(ctx, source, []string{""}, dst, opt)
	}
	parts, _, err := packedParts(ctx, source)
	switch {
	case err != nil:
		return nil, sourceError(err)
	case len(parts) > 0:
		return unpackPCR(ctx, source, parts, dst, opt)
	}
	if err := requireSample(ctx, source, src); err != nil {
		return nil, err
	}
	rule := func(d *directory) map[string]string { return unpackCollisions(source, d) }
	summary, err := convertTree(ctx, source, walkOf(source), dst, opt.Jobs, opt.Progress, rule, func(t *target, _ *slots) converter {
		return newUnpacker(source, t, opt)
	})
	if summary != nil {
		summary.sourceUnfinished(source, unfinishedBecause(source))
	}
	return summary, err
}

// errSampleFound ends a walk that looks for one.
var errSampleFound = errors.New("a sample was found")

// requireSample returns the error of a folder without L3 files before anything
// is written. Where a part of it cannot be entered, there may be some.
func requireSample(ctx context.Context, source, shown string) error {
	err := walk(ctx, source, func(d *directory) error {
		if len(withoutMarker(d.refused)) > 0 || slices.ContainsFunc(d.files, func(name string) bool { return strings.HasSuffix(name, Suffix) }) {
			return errSampleFound
		}
		return nil
	})
	switch {
	case errors.Is(err, errSampleFound):
		return nil
	case err != nil:
		return sourceError(err)
	}
	return noSampleError(source, shown)
}

// unpackCollisions finds the files of d that would take one name.
func unpackCollisions(source string, d *directory) map[string]string {
	// Names of outputs differ from those of their files in image suffixes
	// only, one or two of them.
	key := func(name string) string {
		name = strings.TrimSuffix(name, Suffix)
		for stem(name) != name {
			name = stem(name)
		}
		return name
	}
	outputOf := func(name string) string {
		f, info, err := openRegular(source, d.join(name))
		if err != nil {
			return ""
		}
		defer f.Close()
		if !strings.HasSuffix(name, Suffix) {
			return name
		}
		head, err := l3.ReadInfo(f, info.Size(), l3.Limits{})
		if err != nil {
			return ""
		}
		return UnpackedName(name, head)
	}
	return collisions(d, key, outputOf, "rename one of them")
}

// UnpackedName returns the name of the image that Unpack makes of the L3 file
// name.
func UnpackedName(name string, info l3.Info) string {
	original := info.Meta.OriginalName
	suffix := unpackedSuffix(info)
	if strings.EqualFold(path.Ext(original), suffix) && !strings.ContainsAny(original, "/\x00") &&
		(name == PackedName(original, false) || name == PackedName(original, true)) {
		return original
	}
	base := strings.TrimSuffix(name, Suffix)
	if strings.EqualFold(path.Ext(base), suffix) {
		return base
	}
	return base + suffix
}

// unpackedSuffix is that of the format a sample is restored to.
func unpackedSuffix(info l3.Info) string {
	if !fitsPNG(info.Shape) || strings.EqualFold(path.Ext(info.Meta.OriginalName), ".npy") {
		return ".npy"
	}
	return ".png"
}

// fitsPNG tells whether PNG can hold and name the samples.
func fitsPNG(s raster.Shape) bool { return s.DType != raster.Int16 && s.Color != raster.Other }

// unpacker restores images, one at a time.
type unpacker struct {
	source  string
	target  *target
	force   bool
	decoder *l3.Decoder
	mem     scratch
}

func newUnpacker(source string, t *target, opt UnpackOptions) *unpacker {
	return &unpacker{source: source, target: t, force: opt.Force, decoder: l3.NewDecoder(l3.Limits{})}
}

func (u *unpacker) convert(ctx context.Context, t task) (outcome, error) {
	f, info, err := openRegular(u.source, t.path())
	if err != nil {
		return refusal(reasonOf(err)), nil
	}
	defer f.Close()
	if !strings.HasSuffix(t.name, Suffix) {
		return passThrough(u.target, f, info, t.path(), t.dir, u.force)
	}
	head, err := decodeOpen(u.decoder, &u.mem, f, info)
	if err != nil {
		return refusal(reasonOf(err)), nil
	}
	if err := ctx.Err(); err != nil {
		return outcome{}, err
	}
	return u.write(t, info, head, raster.Image{Shape: head.Shape, Pix: u.mem.pixels})
}

// write makes the image file.
func (u *unpacker) write(t task, info fs.FileInfo, head l3.Info, img raster.Image) (outcome, error) {
	out := t.output(UnpackedName(t.name, head))
	done := outcome{fate: converted, format: "l3", in: info.Size()}
	there, refused, err := u.target.inTheWay(out, u.force, func(there fs.FileInfo) bool { return u.holds(out, there, img) })
	switch {
	case err != nil:
		return outcome{}, err
	case refused != "":
		return refusal(refused), nil
	case there.same:
		done.already, done.out = true, there.info.Size()
		return done, u.target.root.Chtimes(out, time.Time{}, info.ModTime())
	}
	data, err := encodeImage(img, head)
	if err == nil {
		err = checkImage(data, img)
	}
	if err != nil {
		return refusal("a fault in prismfs, please report it with the file: " + err.Error()), nil
	}
	done.out = int64(len(data))
	return writeOutput(u.target, t.dir, out, data, info, there.info != nil, done)
}

// occupant is what has the name of an output.
type occupant struct {
	info fs.FileInfo // nil where nothing has
	same bool        // it is the very image
}

// inTheWay looks what has the name of an image that is unpacked, and says why it
// cannot be made where something else has, which is not to be replaced.
func (t *target) inTheWay(out string, force bool, holds func(fs.FileInfo) bool) (there occupant, refused string, err error) {
	info, err := t.root.Lstat(out)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return occupant{}, "", nil
	case err != nil && costsOnlyItself(err):
		return occupant{}, fmt.Sprintf("the destination cannot hold the name %s: %s", Printable(out), reasonOf(err)), nil
	case err != nil:
		return occupant{}, "", fmt.Errorf("looking for %s in the destination: %w", Printable(out), err)
	case holds(info):
		return occupant{info, true}, "", nil
	case !force || !info.Mode().IsRegular():
		return occupant{}, fmt.Sprintf("%s exists and holds something else: remove it, choose another destination, or replace such files by --force", Printable(out)), nil
	}
	return occupant{info, false}, "", nil
}

// holds tells whether an existing file is an image of the same pixels.
func (u *unpacker) holds(out string, there fs.FileInfo, img raster.Image) bool {
	if !there.Mode().IsRegular() || there.Size() > 2*img.Shape.Bytes()+64<<20 {
		return false
	}
	data, err := u.target.root.ReadFile(out)
	return err == nil && checkImage(data, img) == nil
}

// encodeImage returns the image as PNG or NPY.
func encodeImage(img raster.Image, head l3.Info) ([]byte, error) {
	if unpackedSuffix(head) == ".npy" {
		layout, err := tensor.Form{Container: tensor.NPY}.Layout(img.Shape)
		if err != nil {
			return nil, err
		}
		data := make([]byte, layout.Size())
		return data, layout.Render(data, img.Pix)
	}
	var b bytes.Buffer
	if err := imagefile.EncodePNG(&b, img); err != nil {
		return nil, err
	}
	return withColourProfile(b.Bytes(), head.Meta.ColourProfile)
}

// checkImage decodes an image file and compares it with what it was made
// from. The meaning of channels is not compared: a .npy file has none.
func checkImage(data []byte, img raster.Image) error {
	d, err := imagefile.Decode(data, imagefile.Limits{MaxPixels: l3.DefaultLimits.MaxPixels})
	switch {
	case err != nil:
		return fmt.Errorf("the unpacked image cannot be decoded: %w", err)
	case d.Height != img.Height || d.Width != img.Width || d.Channels != img.Channels || d.DType != img.DType:
		return fmt.Errorf("%v was unpacked, %v comes out", img.Shape, d.Shape)
	case !bytes.Equal(d.Pix, img.Pix):
		return errors.New("the unpacked image has other pixels")
	}
	return nil
}
