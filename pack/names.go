package pack

import (
	"fmt"
	"path"
	"sort"
	"strings"
	"unicode/utf8"

	"prismfs/dataset"
	"prismfs/internal/imagefile"
	"prismfs/l3"
	"prismfs/pcr"
)

// Suffix is the suffix of L3 files; a mount knows samples by it.
const Suffix = ".l3"

// controlFolder is the name at the root of a mount that holds its control
// files, and hides what the source has under that name.
const controlFolder = ".prismfs"

// imageSuffixes are those of files that were meant to be images, in lower
// case: those ImageFolder takes, and others of picture formats in use.
var imageSuffixes = map[string]bool{
	".jpg": true, ".jpeg": true, ".jpe": true, ".jfif": true, ".png": true, ".apng": true,
	".ppm": true, ".pgm": true, ".pbm": true, ".pnm": true, ".pam": true, ".bmp": true, ".dib": true,
	".tif": true, ".tiff": true, ".webp": true, ".npy": true, ".gif": true, ".jp2": true, ".j2k": true,
	".jxl": true, ".heic": true, ".heif": true, ".avif": true, ".exr": true, ".hdr": true, ".pfm": true,
	".qoi": true, ".dcm": true,
}

// claimsImage tells whether a name's suffix says that the file is an image.
func claimsImage(name string) bool { return imageSuffixes[strings.ToLower(path.Ext(name))] }

// stem is a name without its image suffix. Other suffixes stay, since what
// stands behind the dot of scan.001 and scan.002 is part of the name.
func stem(name string) string {
	if ext := path.Ext(name); claimsImage(name) && len(ext) < len(name) {
		return name[:len(name)-len(ext)]
	}
	return name
}

// PackedName returns the name that an image takes when packed: img.jpg
// becomes img.l3, or img.jpg.l3 where suffixes are kept.
func PackedName(name string, keepSuffix bool) string {
	if keepSuffix {
		return name + Suffix
	}
	return stem(name) + Suffix
}

// reserved tells whether a name is one that pack itself uses in a
// destination.
func reserved(name string) bool { return dataset.IsPacks(name) }

// ownPrefix begins all names that prismfs gives to files which are no content.
const ownPrefix = ".prismfs-"

// recordsName tells whether a name beside records is one of theirs: of a record,
// an index, or a file of pack.
func recordsName(name string) bool {
	return pcr.IsRecordName(name) || name == pcr.IndexNamePB || name == pcr.IndexNameSQLite || strings.HasPrefix(name, ownPrefix)
}

// content is what the first bytes and the name of a file say about it.
type content uint8

const (
	noImage    content = iota // no image: passes through
	anImage                   // to be packed
	anL3                      // L3 already: passes through
	emptyImage                // no bytes under an image's name
	falseImage                // something else under an image's name
	falseL3                   // something else under the name of an L3 file
	misnamedL3                // L3 under another image's name
)

// judge decides what a file is from its first bytes, of which it needs
// prefixBytes at most, and for what is no image from its name.
func judge(name string, prefix []byte) (content, imagefile.Format) {
	format, ok := imagefile.Sniff(prefix[:min(len(prefix), imagefile.SniffBytes)])
	named := claimsImage(name)
	switch {
	case l3.IsL3(prefix) && named:
		return misnamedL3, ""
	case l3.IsL3(prefix):
		return anL3, ""
	case strings.HasSuffix(name, Suffix):
		return falseL3, ""
	case ok && (format != imagefile.PDF || named): // PDF holds documents
		return anImage, format
	case named && len(prefix) == 0:
		return emptyImage, ""
	case named:
		return falseImage, ""
	}
	return noImage, ""
}

// reason says why files of this content are refused, "" for those that are
// not.
func (c content) reason() string {
	switch c {
	case emptyImage:
		return "the file is empty, though its name is an image's"
	case falseImage:
		return "its name is an image's, its content is in no known image format"
	case falseL3:
		return "its name is that of an L3 file, its content is not"
	case misnamedL3:
		return "it is an L3 file, which readers know by the suffix .l3: rename it"
	}
	return ""
}

// collisions finds the files of a folder whose outputs would share a name, with
// each other or with a folder, and returns the reason for refusing each.
// outputOf returns the name of a file's output, "" if it has none; it may read
// the file, and is asked only about those whose key is shared: files whose
// outputs can be the same must have the same key.
func collisions(d *directory, key, outputOf func(name string) string, advice string) map[string]string {
	shared := map[string]int{}
	for _, names := range [][]string{d.files, d.folders} {
		for _, name := range names {
			shared[key(name)]++
		}
	}
	byOutput := map[string][]string{}
	for _, name := range d.files {
		if shared[key(name)] < 2 {
			continue
		}
		if out := outputOf(name); out != "" {
			byOutput[out] = append(byOutput[out], name)
		}
	}
	folders := map[string]bool{}
	for _, name := range d.folders {
		folders[name] = true
	}
	reasons := map[string]string{}
	for out, names := range byOutput {
		for i, name := range names {
			rivals := append(append([]string(nil), names[:i]...), names[i+1:]...)
			if folders[out] {
				rivals = append(rivals, out)
			}
			if len(rivals) > 0 {
				reasons[name] = fmt.Sprintf("its output would be named %s, as would that of %s: %s",
					Printable(out), list(rivals), advice)
			}
		}
	}
	return reasons
}

// list joins names for a sentence, the first few of many.
func list(names []string) string {
	const most = 5
	shown := make([]string, 0, most)
	for _, name := range names[:min(len(names), most)] {
		shown = append(shown, Printable(name))
	}
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(shown, ", "), len(names)-most)
	}
	return strings.Join(shown, ", ")
}

// ranks returns the label of each class folder: its place in the order in
// which ImageFolder sorts them.
func ranks(folders []string) map[string]int64 {
	sorted := append([]string(nil), folders...)
	sort.Slice(sorted, func(i, j int) bool { return pythonLess(sorted[i], sorted[j]) })
	rank := make(map[string]int64, len(sorted))
	for i, f := range sorted {
		rank[f] = int64(i)
	}
	return rank
}

// pythonLess orders names as Python orders the strings it makes of them. For
// UTF-8 that is the order of the bytes; a byte that is not UTF-8 stands there
// for the code point U+DC00 + byte (PEP 383), above most letters.
func pythonLess(a, b string) bool {
	for a != "" && b != "" {
		ra, na := pythonRune(a)
		rb, nb := pythonRune(b)
		if ra != rb {
			return ra < rb
		}
		a, b = a[na:], b[nb:]
	}
	return len(a) < len(b)
}

func pythonRune(s string) (rune, int) {
	r, n := utf8.DecodeRuneInString(s)
	if r == utf8.RuneError && n == 1 {
		return 0xDC00 + rune(s[0]), 1
	}
	return r, n
}
