package pack

import (
	"fmt"
	"os"
	"path/filepath"

	"prismfs/internal/plural"
	"prismfs/l3"
)

// otherOutput returns the output of an image that an earlier run has given the name
// which it has with suffixes kept, or not kept, and this run has not; "" if there is
// none. Nobody takes it away: it may be wanted. A loader sees the image twice.
func (p *packer) otherOutput(t task) string {
	other := PackedName(t.name, !p.opt.KeepSuffix)
	if other == PackedName(t.name, p.opt.KeepSuffix) {
		return ""
	}
	path := t.output(other)
	there, err := p.target.root.Lstat(path)
	if err != nil || !there.Mode().IsRegular() {
		return ""
	}
	if _, err := os.Lstat(filepath.Join(p.source, path)); err == nil {
		return "" // a file of the source, which passed through
	}
	f, err := p.target.root.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	info, err := l3.ReadInfo(f, there.Size(), l3.Limits{})
	if err != nil || info.Version >= 2 && info.Meta.OriginalName != t.name {
		return ""
	}
	return path
}

// doubledImages says that images are in the destination under two names.
func doubledImages(s *Summary, keepSuffix bool) []string {
	if s.Doubled == 0 {
		return nil
	}
	run := "with"
	if keepSuffix {
		run = "without"
	}
	return []string{fmt.Sprintf("%s in the destination under another name too, as %s, from a run %s --keep-suffix: "+
		"a mount shows %s twice. Remove those files, or pack into a folder of its own",
		plural.Or(s.Doubled, "1 image is", fmt.Sprintf("%d images are", s.Doubled)), Printable(s.DoubledAs),
		run, plural.Or(s.Doubled, "it", "each"))}
}
