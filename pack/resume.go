package pack

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"prismfs/l3"
	"prismfs/raster"
)

// state is how an existing output stands to its source.
type state uint8

const (
	absent   state = iota
	upToDate       // made from this source as it is
	outdated       // made from this source as it was, or damaged: to be replaced
	unclear        // perhaps from this source: the pixels must tell
	doubtful       // made from this source, perhaps not as it would be made now: encoding must tell
	foreign        // something else: not to be touched
)

// prior is what stands where an output will be.
type prior struct {
	state  state
	size   int64
	coding l3.Coding
	older  bool // than the source
	stale  bool // in another coding, or with another label, than is wanted now
	doubt  bool // in a coding that is perhaps not the one wanted now
	named  bool // its head has the name and class of the source
	shape  raster.Shape
	reason string // of foreign
}

// existing looks at what stands in the place of an output.
func (p *packer) existing(out string, source fs.FileInfo, t task) (prior, error) {
	there, err := p.target.root.Lstat(out)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return prior{}, nil
	case costsOnlyItself(err):
		return prior{state: foreign, reason: fmt.Sprintf("the destination cannot hold the name %s: %s", Printable(out), reasonOf(err))}, nil
	case err != nil:
		return prior{}, fmt.Errorf("looking for %s in the destination: %w", Printable(out), err)
	}
	occupied := prior{state: foreign, reason: fmt.Sprintf(
		"%s exists and is not its packed form: remove it, or choose another destination", Printable(out))}
	if !there.Mode().IsRegular() {
		return occupied, nil
	}
	f, err := p.target.root.Open(out)
	if err != nil {
		return prior{}, fmt.Errorf("reading an earlier output: %w", err)
	}
	defer f.Close()
	result := prior{size: there.Size(), older: there.ModTime().Before(source.ModTime())}
	if there.Size() == 0 {
		result.state = outdated // emptied, or never written: nothing is lost with it
		return result, nil
	}
	info, err := l3.ReadInfo(f, there.Size(), l3.Limits{})
	if err != nil {
		prefix, prefixErr := readPrefix(f)
		if prefixErr != nil || !l3.IsL3(prefix) {
			return occupied, nil
		}
		result.state = outdated // damaged
		return result, nil
	}
	meta := info.Meta
	result.coding, result.shape = info.Coding, info.Shape
	fits := p.fits(info, source.Size())
	result.stale, result.doubt = fits == no, fits == perhaps
	if info.Version >= 2 {
		if meta.OriginalName != t.name {
			return occupied, nil
		}
		result.named = meta.Class == t.class
		result.stale = result.stale || meta.Class != t.class || !sameLabel(meta.Label, t.label)
	}
	switch {
	case !sameTime(source.ModTime(), there.ModTime()):
		result.state = unclear
	case result.stale || p.target.unclean && p.damaged(f, there.Size()):
		result.state = outdated
	case result.doubt:
		result.state = doubtful
	default:
		result.state = upToDate
	}
	return result, nil
}

// fit is whether an earlier output is coded as it would be now.
type fit uint8

const (
	no fit = iota
	perhaps
	yes
)

func exactly(b bool) fit {
	if b {
		return yes
	}
	return no
}

// fits compares the coding of an earlier output, made from a file of so many
// bytes, with the one that the mode gives. An image that is stored raw may be so
// because a coding did not make it smaller, which another one might.
func (p *packer) fits(info l3.Info, source int64) fit {
	c := info.Coding
	switch {
	case p.opt.Mode == l3.ModePublished:
		return exactly(c == l3.Published)
	case p.opt.Mode == l3.ModeRaw:
		return exactly(c == l3.Raw)
	case c == l3.Raw:
		return perhaps
	case p.opt.Mode == l3.ModeDense:
		return exactly(c == l3.Dense8 || c == l3.Dense16)
	case p.opt.Mode == l3.ModeLabels:
		return exactly(c == l3.Labels)
	case p.opt.Mode == l3.ModeAuto:
		return autoFits(info, source)
	}
	return exactly(c == l3.Fast8 || c == l3.Fast16)
}

// labelBits is between what a sample of a label map comes to, and one of a
// photograph.
const labelBits = 1

// autoFits is fits for l3.ModeAuto, whose choice is known for certain only after
// encoding. Of most images it is dense, of label maps labels, and neither of an
// image that is better left as it is.
func autoFits(info l3.Info, source int64) fit {
	labelMap := info.Shape.Channels == 1 && info.Shape.DType.Size() == 1 &&
		8*(info.FileBytes-info.HeadBytes) < labelBits*info.Shape.Pixels()
	switch c := info.Coding; {
	case c == l3.Published:
		return no
	case c == l3.Labels && labelMap, c == l3.Dense16, c == l3.Dense8 && !labelMap:
		if !betterLeft(source, info.FileBytes) {
			return yes
		}
	}
	return perhaps
}

// sameCoding tells whether a file that has just been encoded is coded as the
// earlier one.
func sameCoding(encoded []byte, there prior) bool {
	info, err := l3.ReadInfo(bytes.NewReader(encoded), int64(len(encoded)), l3.Limits{})
	return err == nil && info.Coding == there.coding
}

// compare says what an earlier output is whose time is not the source's, by its
// pixels.
func (p *packer) compare(out string, img raster.Image, there prior) (state, error) {
	same, damaged, err := p.samePixels(out, img, there)
	switch {
	case err != nil:
		return foreign, err
	case damaged:
		return outdated, nil
	case same && there.stale, !same && there.older:
		return outdated, nil
	case !same:
		return foreign, nil
	case there.doubt:
		return doubtful, nil
	}
	return upToDate, nil
}

// damaged decodes an earlier output to see that it is whole.
func (p *packer) damaged(f io.ReaderAt, size int64) bool {
	data := make([]byte, size)
	if _, err := f.ReadAt(data, 0); err != nil && err != io.EOF {
		return true
	}
	_, pixels, err := decodeL3(p.decoder, data, p.pixels)
	p.pixels = pixels
	return err != nil
}

// samePixels tells whether an earlier output holds an image, or did before it was
// damaged: by its head, which has a checksum of its own, it was made of a file of
// this name and class, and of this shape. Another one that cannot be decoded does not.
func (p *packer) samePixels(out string, img raster.Image, there prior) (same, damaged bool, err error) {
	data, err := p.target.root.ReadFile(out)
	if err != nil {
		return false, false, fmt.Errorf("reading an earlier output: %w", err)
	}
	info, pixels, err := decodeL3(p.decoder, data, p.pixels)
	p.pixels = pixels
	if err != nil {
		return false, there.named && there.shape == img.Shape, nil
	}
	return info.Shape == img.Shape && bytes.Equal(pixels, img.Pix), false, nil
}

// sameTime compares the times of a source and its output. File systems that
// keep coarser times than the source's cut them off.
func sameTime(source, output time.Time) bool {
	if source.Equal(output) || source.Truncate(time.Microsecond).Equal(output) {
		return true
	}
	return output.Nanosecond() == 0 && source.Truncate(time.Second).Equal(output)
}
