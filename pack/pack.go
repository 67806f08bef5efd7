package pack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"prismfs/internal/imagefile"
	"prismfs/l3"
	"prismfs/raster"
)

// Options say how Pack works. The zero value is good.
type Options struct {
	Mode       l3.Mode
	Jobs       int   // images at a time; 0: as many as there are processors
	KeepSuffix bool  // img.jpg.l3 instead of img.l3
	MaxPixels  int64 // height × width of one image; 0: imagefile.DefaultLimits
	// Progress, unless nil, is called after every file, never twice at once.
	// The total is 0 until it is known.
	Progress func(done, total int)
}

// MaxPixelsLimit is the largest Options.MaxPixels: what readers of L3 accept.
var MaxPixelsLimit = l3.DefaultLimits.MaxPixels

// poorRatio is the growth of a lossy format's images above which packing is
// called a poor choice.
const poorRatio = 1.5

// Pack converts the images of folder src to L3 files in folder dst, which is
// made where it is missing. An image at class/sub/img.jpg becomes
// class/sub/img.l3; its class and label are the folder of the first level and
// the place that torchvision's ImageFolder gives it among all folders there.
// The published format has no room for class, label and names.
//
// Where dst holds outputs of an earlier run, those that are whole, and made
// from the source as it is now, stay: the time, the original name, class and
// label tell it, and where the times differ the pixels. One with other pixels is
// replaced, and counted as such, if it is older and carries the same original
// name; else its source is refused. Errors wrap ErrSource or ErrDestination
// where one of the two cannot be used, or are the context's; refused files are
// no error. The summary is valid, and adds up for the files it counts, in
// every case in which it is not nil.
func Pack(ctx context.Context, src, dst string, opt Options) (*Summary, error) {
	if opt.MaxPixels > MaxPixelsLimit {
		return nil, fmt.Errorf("a limit of %d pixels: readers of L3 take %d at most", opt.MaxPixels, MaxPixelsLimit)
	}
	if opt.MaxPixels <= 0 {
		opt.MaxPixels = imagefile.DefaultLimits.MaxPixels
	}
	source, err := apart(src, dst)
	if err != nil {
		return nil, err
	}
	rule := func(d *directory) map[string]string { return packCollisions(source, d, opt.KeepSuffix) }
	summary, err := convertTree(ctx, source, dst, opt.Jobs, opt.Progress, rule, func(t *target) converter {
		return &packer{source: source, target: t, opt: opt, decoder: l3.NewDecoder(l3.Limits{})}
	})
	if summary != nil {
		summary.Notes = append(append(summary.Notes, poorChoices(summary)...), hiddenByMounts(dst)...)
	}
	return summary, err
}

// nameRule returns the files of a folder that are refused for their names,
// with the reasons.
type nameRule func(*directory) map[string]string

// convertTree is what Pack and Unpack share, for a source and a destination that
// are apart: the target is opened and closed, and in between every file finds
// its outcome.
func convertTree(ctx context.Context, source, dst string, jobs int, progress func(done, total int),
	rule nameRule, construct func(*target) converter) (*Summary, error) {
	if f, err := os.Open(source); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSource, err)
	} else {
		f.Close()
	}
	t, err := openTarget(dst)
	if err != nil {
		return nil, err
	}
	if jobs <= 0 {
		jobs = runtime.GOMAXPROCS(0)
	}
	r := &run{source: source, target: t, jobs: jobs, refusals: rule, progress: progress,
		newConverter: func() converter { return construct(t) }}
	summary, err := r.do(ctx)
	if closeErr := t.close(); err == nil {
		err = closeErr
	}
	return summary, err
}

// packCollisions finds the files of d that would take one name.
func packCollisions(source string, d *directory, keepSuffix bool) map[string]string {
	outputOf := func(name string) string {
		c, err := judgeFile(source, d.join(name), name)
		switch {
		case err != nil || c.reason() != "":
			return "" // refused on its own account
		case c == anImage:
			return PackedName(name, keepSuffix)
		}
		return name
	}
	advice := "--keep-suffix tells them apart"
	if keepSuffix {
		advice = "rename one of them"
	}
	return collisions(d, packKey(keepSuffix), outputOf, advice)
}

// packKey returns a function that is the same for names of which Pack may make
// outputs of the same name.
func packKey(keepSuffix bool) func(name string) string {
	return func(name string) string {
		if strings.HasSuffix(name, Suffix) {
			return name
		}
		return PackedName(name, keepSuffix)
	}
}

// judgeFile opens a file to tell what it is.
func judgeFile(source, path, name string) (content, error) {
	f, _, err := openRegular(source, path)
	if err != nil {
		return noImage, err
	}
	defer f.Close()
	prefix, err := readPrefix(f)
	if err != nil {
		return noImage, err
	}
	c, _ := judge(name, prefix)
	return c, nil
}

// poorChoices names the lossy formats that grew.
func poorChoices(s *Summary) []string {
	var notes []string
	for _, format := range []imagefile.Format{imagefile.JPEG, imagefile.WebP} {
		if t := s.Formats[string(format)]; t.Ratio() >= poorRatio {
			notes = append(notes, fmt.Sprintf("%s images became %.1f times larger: L3 keeps every decoded pixel. "+
				"That makes them fast to read, not small; where space matters more, leave them as they are",
				format.Title(), t.Ratio()))
		}
	}
	return notes
}

// hiddenByMounts names what a mount of the destination cannot show.
func hiddenByMounts(dst string) []string {
	if _, err := os.Lstat(filepath.Join(dst, controlFolder)); err != nil {
		return nil
	}
	return []string{controlFolder + " cannot be seen in a mount, which shows its own control files under that name: rename it in the source"}
}

// packer converts images to L3, one at a time.
type packer struct {
	source  string
	target  *target
	opt     Options
	decoder *l3.Decoder
	file    []byte // of the source, reused
	pixels  []byte // of the check, reused
}

func (p *packer) convert(ctx context.Context, t task) (outcome, error) {
	f, info, err := openRegular(p.source, t.path())
	if err != nil {
		return refusal(reasonOf(err)), nil
	}
	defer f.Close()
	prefix, err := readPrefix(f)
	if err != nil {
		return refusal(reasonOf(err)), nil
	}
	c, format := judge(t.name, prefix)
	switch {
	case c == anImage:
		return p.pack(ctx, t, f, info, format)
	case c.reason() != "":
		return refusal(c.reason()), nil
	}
	return passThrough(p.target, f, info, t.path(), t.dir, false)
}

// pack makes the output of an image, unless an earlier run did.
func (p *packer) pack(ctx context.Context, t task, f *os.File, info fs.FileInfo, format imagefile.Format) (outcome, error) {
	out := t.output(PackedName(t.name, p.opt.KeepSuffix))
	there, err := p.existing(out, info, t)
	if err != nil {
		return outcome{}, err
	}
	switch there.state {
	case foreign:
		return refusal(there.reason), nil
	case upToDate:
		return outcome{fate: converted, already: true, format: string(format), in: info.Size(), out: there.size}, nil
	}
	img, err := p.read(f, info)
	if err != nil {
		return refusal(reasonOf(err)), nil
	}
	if there.state == unclear {
		same, err := p.samePixels(out, img.Image)
		switch {
		case err != nil:
			return outcome{}, err
		case same && !there.stale:
			err := p.target.root.Chtimes(out, time.Time{}, info.ModTime())
			return outcome{fate: converted, already: true, format: string(format), in: info.Size(), out: there.size}, err
		case !same && !there.older:
			return refusal(fmt.Sprintf("%s exists, holds another image and is not older: remove it, or choose another destination", Printable(out))), nil
		}
	}
	encoded, err := p.encode(img, t)
	if err != nil {
		return refusal(reasonOf(err)), nil
	}
	if err := ctx.Err(); err != nil {
		return outcome{}, err
	}
	done := outcome{fate: converted, format: string(format), in: info.Size(), out: int64(len(encoded))}
	return writeOutput(p.target, t.dir, out, encoded, info, there.state != absent, done)
}

// read decodes the source image.
func (p *packer) read(f *os.File, info fs.FileInfo) (*imagefile.Decoded, error) {
	// No image within the limit is longer than its samples at the widest,
	// with room for headers and metadata.
	most := p.opt.MaxPixels*raster.MaxChannels*2 + 64<<20
	if info.Size() > most {
		return nil, fmt.Errorf("the file has %d bytes, more than an image of %d pixels can need", info.Size(), p.opt.MaxPixels)
	}
	data, err := readWhole(f, info, p.file)
	p.file = data
	if err != nil {
		return nil, err
	}
	return imagefile.Decode(data, imagefile.Limits{MaxPixels: p.opt.MaxPixels})
}

// metadata is what the output carries beside its pixels.
func (p *packer) metadata(t task, img *imagefile.Decoded) l3.Metadata {
	if p.opt.Mode == l3.ModePublished {
		return l3.Metadata{} // the format has no room for any
	}
	return l3.Metadata{
		Label: t.label, Class: t.class, OriginalName: t.name,
		SourceDecoder: img.Decoder, ColourProfile: img.ColourProfile,
	}
}

// encode returns the L3 file of an image, after decoding it again and
// comparing all that must come out.
func (p *packer) encode(img *imagefile.Decoded, t task) ([]byte, error) {
	meta := p.metadata(t, img)
	encoded, err := l3.Encode(img.Image, l3.EncodeOptions{Mode: p.opt.Mode, Meta: meta, SignificantBits: img.SignificantBits})
	if err != nil {
		return nil, err
	}
	if err := p.check(encoded, img.Image, meta); err != nil {
		return nil, fmt.Errorf("a fault in prismfs, please report it with the image: %w", err)
	}
	return encoded, nil
}

// check decodes an L3 file and compares it with what it was made from.
func (p *packer) check(encoded []byte, img raster.Image, meta l3.Metadata) error {
	info, pixels, err := decodeL3(p.decoder, encoded, p.pixels)
	p.pixels = pixels
	switch {
	case err != nil:
		return fmt.Errorf("the packed image cannot be decoded: %w", err)
	case info.Shape != img.Shape:
		return fmt.Errorf("%v was packed, %v comes out", img.Shape, info.Shape)
	case !bytes.Equal(pixels, img.Pix):
		return errors.New("the packed image has other pixels")
	case !sameMetadata(info.Meta, meta):
		return errors.New("the packed image has other metadata")
	}
	return nil
}

// decodeL3 decodes a whole L3 file into buf, which grows where it must.
func decodeL3(d *l3.Decoder, file, buf []byte) (l3.Info, []byte, error) {
	info, err := l3.ReadInfo(bytes.NewReader(file), int64(len(file)), l3.Limits{})
	if err != nil {
		return info, buf, err
	}
	size := info.Shape.Bytes()
	if int64(cap(buf)) < size {
		buf = make([]byte, size)
	}
	buf = buf[:size]
	_, err = d.Decode(buf, file) // its Info lacks the metadata
	return info, buf, err
}

func sameMetadata(a, b l3.Metadata) bool {
	return sameLabel(a.Label, b.Label) && a.Class == b.Class && a.OriginalName == b.OriginalName &&
		a.SourceDecoder == b.SourceDecoder && bytes.Equal(a.ColourProfile, b.ColourProfile)
}

func sameLabel(a, b *int64) bool {
	return a == nil && b == nil || a != nil && b != nil && *a == *b
}
