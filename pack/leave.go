package pack

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"prismfs/internal/imagefile"
	"prismfs/l3"
)

// ModeAuto leaves the file of an image as it is where the best coding is larger
// by more than a quarter, and by more than leaveBytes: then the file is of a
// kind that general compression does better (drawings, pages of text,
// repeated patterns), and decoding it is quick as well, since there is little
// to decode. A smaller difference is a fair price for an image that a mount can
// show in every form.
const (
	leaveDivisor = 4    // more than 1 + 1/4 times the file
	leaveBytes   = 4096 // a block of a file system: less is no difference on most disks
)

// betterLeft tells whether a source file of so many bytes stays as it is beside
// a packed form of so many.
func betterLeft(source, packed int64) bool {
	return packed-source > leaveBytes && packed-source > source/leaveDivisor
}

// mayLeave tells whether an image can stay as it is: its pixels are stored
// without loss, and its name tells readers that it is an image. What a lossy
// file gains from being packed is not space.
func (p *packer) mayLeave(name string, format imagefile.Format, data []byte) bool {
	if p.opt.Mode != l3.ModeAuto || !claimsImage(name) || format == imagefile.JPEG {
		return false
	}
	return format != imagefile.WebP || losslessWebP(data)
}

// losslessWebP tells whether the picture of a WebP file is in the lossless
// coding, by its chunks.
func losslessWebP(data []byte) bool {
	const riffHeader, chunkHeader = 12, 8
	for at := riffHeader; at+chunkHeader <= len(data); {
		switch string(data[at : at+4]) {
		case "VP8L":
			return true
		case "VP8 ":
			return false
		}
		size := int64(binary.LittleEndian.Uint32(data[at+4:]))
		next := int64(at) + chunkHeader + size + size&1
		if next > int64(len(data)) {
			return false
		}
		at = int(next)
	}
	return false
}

// leftBefore tells whether an earlier run left an image as it is: no packed
// form is there, and a copy is.
// Whether a file of the source is one that could be left has been decided then.
// Whatever is wrong with the copy, writing another one will say.
func (p *packer) leftBefore(t task, f *os.File, info fs.FileInfo) bool {
	if p.opt.Mode != l3.ModeAuto || !claimsImage(t.name) {
		return false
	}
	there, err := p.target.root.Lstat(t.path())
	if err != nil || !there.Mode().IsRegular() {
		return false
	}
	same, err := sameCopy(p.target, f, info, there, t.path())
	return same && err == nil
}

// leave passes the file of an image through, and takes an earlier packed form
// of it away, out.
func (p *packer) leave(t task, f *os.File, info fs.FileInfo, out string, packed int64) (outcome, error) {
	o, err := passThrough(p.target, f, info, t.path(), t.dir, false)
	if err != nil || o.fate != passed {
		return o, err
	}
	o.left, o.packed = true, packed
	switch err := p.target.root.Remove(out); {
	case err == nil:
		o.already, o.replaced = false, true
	case !errors.Is(err, fs.ErrNotExist):
		return outcome{}, fmt.Errorf("removing an earlier output: %w", err)
	}
	return o, nil
}

// removeCopy removes the copy of an image that is packed now and was left as
// it is by an earlier run, since a loader would see the image twice. It tells
// whether there was one. If older is set, a file older than the source counts as
// the copy of what the source was. Any other is somebody else's, and stays.
func (p *packer) removeCopy(t task, f *os.File, info fs.FileInfo, older bool) (bool, error) {
	there, err := p.target.root.Lstat(t.path())
	if err != nil || !there.Mode().IsRegular() {
		return false, nil
	}
	ours := older && there.ModTime().Before(info.ModTime())
	if !ours {
		if ours, err = sameCopy(p.target, f, info, there, t.path()); err != nil || !ours {
			return false, err
		}
	}
	if err := p.target.root.Remove(t.path()); err != nil {
		return false, fmt.Errorf("removing an earlier output: %w", err)
	}
	return true, nil
}
