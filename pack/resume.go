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
	foreign        // something else: not to be touched
)

// prior is what stands where an output will be.
type prior struct {
	state  state
	size   int64
	older  bool   // than the source
	stale  bool   // in another format, or with another label, than is wanted now
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
	result.stale = !p.codingFits(info.Coding)
	if info.Version >= 2 {
		if meta.OriginalName != t.name {
			return occupied, nil
		}
		result.stale = result.stale || meta.Class != t.class || !sameLabel(meta.Label, t.label)
	}
	switch {
	case !sameTime(source.ModTime(), there.ModTime()):
		result.state = unclear
	case result.stale || p.target.unclean && p.damaged(f, there.Size()):
		result.state = outdated
	default:
		result.state = upToDate
	}
	return result, nil
}

// codingFits tells whether a file is in the format that is being written.
func (p *packer) codingFits(c l3.Coding) bool {
	switch p.opt.Mode {
	case l3.ModePublished:
		return c == l3.Published
	case l3.ModeRaw:
		return c == l3.Raw
	}
	return c != l3.Published
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

// samePixels tells whether an earlier output holds an image; one that cannot
// be decoded does not.
func (p *packer) samePixels(out string, img raster.Image) (bool, error) {
	data, err := p.target.root.ReadFile(out)
	if err != nil {
		return false, fmt.Errorf("reading an earlier output: %w", err)
	}
	info, pixels, err := decodeL3(p.decoder, data, p.pixels)
	p.pixels = pixels
	return err == nil && info.Shape == img.Shape && bytes.Equal(pixels, img.Pix), nil
}

// sameTime compares the times of a source and its output. File systems that
// keep coarser times than the source's cut them off.
func sameTime(source, output time.Time) bool {
	if source.Equal(output) || source.Truncate(time.Microsecond).Equal(output) {
		return true
	}
	return output.Nanosecond() == 0 && source.Truncate(time.Second).Equal(output)
}
