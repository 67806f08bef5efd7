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
	"prismfs/internal/plural"
	"prismfs/l3"
	"prismfs/raster"
)

// Options say how Pack works. The zero value is good.
type Options struct {
	Mode       l3.Mode
	Effort     int   // l3.EncodeOptions.Effort
	Jobs       int   // images at a time, or parts of large ones; 0: as many as there are processors
	KeepSuffix bool  // img.jpg.l3 instead of img.l3
	MaxPixels  int64 // height × width of one image; 0: imagefile.DefaultLimits
	// Progress, unless nil, is called after every file, never twice at once.
	// The total is 0 until it is known.
	Progress func(done, total int)
}

// MaxPixelsLimit is the largest Options.MaxPixels: what readers of L3 accept.
var MaxPixelsLimit = l3.DefaultLimits.MaxPixels

// The growth from which on packing is called a poor choice: that of a lossy
// format's images, and that of PNG images, most of which shrink.
const (
	poorRatio    = 1.5
	poorRatioPNG = 1.1
)

// Pack converts the images of folder src to L3 files in folder dst, which is
// made where it is missing. An image at class/sub/img.jpg becomes
// class/sub/img.l3; its class and label are the folder of the first level and
// the place that torchvision's ImageFolder gives it among all folders there.
// The published format has no room for class, label and names.
//
// With l3.ModeAuto, an image that is stored without loss in a far smaller file
// than any coding makes of it passes through under its own name, and is listed
// in Summary.Left.
//
// Where dst holds outputs of an earlier run, those that are whole, and made
// from the source as it is now, stay: the time, the original name, class and
// label tell it, and where the times differ the pixels. Those in a coding that
// opt.Mode would not give are packed anew. The effort is not recorded in a file, so
// that another one changes nothing that is done. An output with other pixels is
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
	if err := withoutRecords(ctx, source, dst); err != nil {
		return nil, err
	}
	rule := func(d *directory) map[string]string { return packCollisions(source, d, opt.KeepSuffix) }
	summary, err := convertTree(ctx, source, walkOf(source), dst, opt.Jobs, opt.Progress, rule, func(t *target, s *slots) converter {
		return &packer{source: source, target: t, slots: s, opt: opt, decoder: l3.NewDecoder(l3.Limits{})}
	})
	if summary != nil {
		summary.Notes = append(summary.Notes, poorChoices(summary, opt.Mode)...)
		summary.Notes = append(summary.Notes, leftImages(summary)...)
		summary.Notes = append(summary.Notes, doubledImages(summary, opt.KeepSuffix)...)
		summary.Notes = append(summary.Notes, hiddenByMounts(dst)...)
		summary.Notes = append(summary.Notes, notHeld(summary, opt.Mode)...)
	}
	return summary, err
}

// withoutRecords refuses a destination in which a mount would no longer show the
// images of records, behind folders of L3 files. Records that lie in the same
// place of the source are copies.
func withoutRecords(ctx context.Context, source, dst string) error {
	resolved, err := resolveSource(dst)
	if err != nil {
		return nil // it is to be made, or opening it will say what is wrong
	}
	folders, _, err := packedParts(ctx, resolved)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return nil
	}
	for _, folder := range folders {
		if !copiedRecords(filepath.Join(source, folder), filepath.Join(resolved, folder)) {
			return fmt.Errorf("%w: %s holds PCR records or an index of them, whose images a mount would not show beside folders of L3 files: choose another folder",
				ErrDestination, Printable(filepath.Join(dst, folder)))
		}
	}
	return nil
}

// copiedRecords tells whether every record and index of a folder has its like in
// the source.
func copiedRecords(source, dst string) bool {
	entries, err := os.ReadDir(dst)
	if err != nil {
		return false
	}
	for _, e := range entries {
		if !isRecordsFile(e.Name()) {
			continue
		}
		if _, err := os.Lstat(filepath.Join(source, e.Name())); err != nil {
			return false
		}
	}
	return true
}

// nameRule returns the files of a folder that are refused for their names,
// with the reasons.
type nameRule func(*directory) map[string]string

// convertTree is what Pack and Unpack share, for a source and a destination that
// are apart: the target is opened and closed, and in between every file finds
// its outcome.
func convertTree(ctx context.Context, source string, walk walkFunc, dst string, jobs int, progress func(done, total int),
	rule nameRule, construct func(*target, *slots) converter) (*Summary, error) {
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
	free := newSlots(jobs)
	r := &run{source: source, walk: walk, target: t, jobs: jobs, slots: free, refusals: rule, progress: progress,
		newConverter: func() converter { return construct(t, free) }}
	summary, err := r.do(ctx)
	if err != nil {
		_ = t.abandon(true) // the first error says more
		return summary, err
	}
	return summary, t.close()
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

// poorChoices names the formats whose images grew.
func poorChoices(s *Summary, mode l3.Mode) []string {
	var notes []string
	for _, format := range []imagefile.Format{imagefile.JPEG, imagefile.WebP} {
		if t := s.Formats[string(format)]; t.Ratio() >= poorRatio {
			notes = append(notes, fmt.Sprintf("%s images became %.1f times larger: L3 keeps every decoded pixel. "+
				"That makes them fast to read, not small; where space matters more, leave them as they are",
				format.Title(), t.Ratio()))
		}
	}
	if t := s.Formats[string(imagefile.PNG)]; t.Ratio() >= poorRatioPNG {
		remedy := "--mode auto takes the smallest coding for each, and leaves those as they are that L3 would make larger by far"
		if mode == l3.ModeAuto {
			remedy = "of each the smallest coding is taken already"
		}
		notes = append(notes, fmt.Sprintf("%s images became %.1f times larger: %s", imagefile.PNG.Title(), t.Ratio(), remedy))
	}
	return notes
}

// notHeld says how many images another mode would not have refused.
func notHeld(s *Summary, mode l3.Mode) []string {
	if s.NotHeld == 0 {
		return nil
	}
	name := "labels"
	if mode == l3.ModePublished {
		name = "published"
	}
	return []string{fmt.Sprintf("%d of the refused files %s of a kind that --mode %s cannot hold: --mode auto packs %s", s.NotHeld,
		plural.Or(s.NotHeld, "is an image", "are images"), name, plural.Or(s.NotHeld, "it", "them"))}
}

// leftImages says that images were left as they are.
func leftImages(s *Summary) []string {
	if len(s.Left) == 0 {
		return nil
	}
	if len(s.Left) == 1 {
		return []string{"1 image was left as it is, since L3 would be larger than its file by more than a quarter. " +
			"A mount shows it as the file that it is in every view; --mode dense packs it all the same"}
	}
	return []string{fmt.Sprintf("%d images were left as they are, since L3 would be larger than their files by more than a quarter. "+
		"A mount shows them as the files that they are in every view; --mode dense packs them all the same", len(s.Left))}
}

// hiddenByMounts names what a mount of the destination cannot show.
func hiddenByMounts(dst string) []string {
	if _, err := os.Lstat(filepath.Join(dst, controlFolder)); err != nil {
		return nil
	}
	return []string{hiddenControlFolder}
}

// hiddenControlFolder is said where a mount hides something of the dataset.
const hiddenControlFolder = controlFolder + " cannot be seen in a mount, which shows its own control files under that name: rename it in the source"

// packer converts images to L3, one at a time.
type packer struct {
	source  string
	target  *target
	slots   *slots
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
		o, err := p.pack(ctx, t, f, info, format)
		if err == nil && (o.fate == converted || o.left) {
			o.double = p.otherOutput(t)
		}
		return o, err
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
	packed := outcome{fate: converted, format: string(format), in: info.Size(), out: there.size}
	switch {
	case there.state == foreign:
		return refusal(there.reason), nil
	case there.state == upToDate:
		return p.keep(t, f, info, packed)
	case there.state == absent && p.leftBefore(t, f, info):
		return outcome{fate: passed, already: true, left: true, in: info.Size(), out: info.Size()}, nil
	}
	img, err := p.read(f, info)
	if err != nil {
		return refusal(reasonOf(err)), nil
	}
	if there.state == unclear {
		if there.state, err = p.compare(out, img.Image, there); err != nil {
			return outcome{}, err
		}
		switch there.state {
		case foreign:
			return refusal(fmt.Sprintf("%s exists, is newer, and holds another image or is damaged: remove it if it may be made anew, or choose another destination", Printable(out))), nil
		case upToDate:
			if err := p.target.root.Chtimes(out, time.Time{}, info.ModTime()); err != nil {
				return outcome{}, err
			}
			return p.keep(t, f, info, packed)
		}
	}
	encoded, err := p.encode(img, t)
	if err != nil {
		o := refusal(reasonOf(err))
		o.notHeld = p.forModeOnly(err)
		return o, nil
	}
	if err := ctx.Err(); err != nil {
		return outcome{}, err
	}
	if p.mayLeave(t.name, format, p.file) && betterLeft(info.Size(), int64(len(encoded))) {
		return p.leave(t, f, info, out, int64(len(encoded)))
	}
	if there.state == doubtful && sameCoding(encoded, there) {
		if err := p.target.root.Chtimes(out, time.Time{}, info.ModTime()); err != nil {
			return outcome{}, err
		}
		return p.keep(t, f, info, packed)
	}
	packed.out = int64(len(encoded))
	o, err := writeOutput(p.target, t.dir, out, encoded, info, there.state != absent, packed)
	if err != nil || o.fate != converted {
		return o, err
	}
	removed, err := p.removeCopy(t, f, info, true)
	o.replaced = o.replaced || removed
	return o, err
}

// keep is the outcome of an image whose output is there already.
func (p *packer) keep(t task, f *os.File, info fs.FileInfo, packed outcome) (outcome, error) {
	packed.already = true
	// A run that was killed may have packed what was a copy before, and not
	// come to removing that.
	_, err := p.removeCopy(t, f, info, p.target.unclean)
	return packed, err
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

// forModeOnly tells whether an error of encode is that of a mode for some kinds of
// images only: auto holds every decoded image.
func (p *packer) forModeOnly(err error) bool {
	return errors.Is(err, l3.ErrUnsupported) && (p.opt.Mode == l3.ModeLabels || p.opt.Mode == l3.ModePublished)
}

// encode returns the L3 file of an image, after decoding it again and
// comparing all that must come out.
func (p *packer) encode(img *imagefile.Decoded, t task) ([]byte, error) {
	meta := p.metadata(t, img)
	encoded, err := p.encodeOnly(img, meta)
	if err != nil {
		return nil, err
	}
	if err := p.check(encoded, img.Image, meta); err != nil {
		return nil, fmt.Errorf("a fault in prismfs, please report it with the image: %w", err)
	}
	return encoded, nil
}

// encodeOnly returns the L3 file of an image unchecked.
func (p *packer) encodeOnly(img *imagefile.Decoded, meta l3.Metadata) ([]byte, error) {
	workers := p.slots.borrow(img.Bytes())
	defer p.slots.giveBack(workers)
	return l3.Encode(img.Image, l3.EncodeOptions{
		Mode: p.opt.Mode, Effort: p.opt.Effort, Workers: workers, Meta: meta, SignificantBits: img.SignificantBits,
	})
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
