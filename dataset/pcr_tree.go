package dataset

import (
	"bytes"
	"encoding/binary"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// tree is what a PCR folder shows instead of its records: class folders with an
// entry for each image. No name is kept: they are put together, and taken
// apart, when somebody asks, so that a million images take 4 bytes each, and
// what their original names take.
type tree struct {
	classes  []class
	byFolder map[string]int // of the classes that have a name
	digits   int            // of the names of the others

	images int // of all records, shown or not

	// order has the images that are shown, class by class; within a class by the
	// path of the image, or, where none has a name of its own, by number.
	order u32s
	// An image has a form of name (see pcr_names.go) and an original name, which is
	// names[nameEnds[i-1]:nameEnds[i]]. All three are empty if no image has one.
	forms    []byte
	nameEnds u32s
	names    []byte

	records  []*record
	byRecord map[string]*record // by file name without suffix
}

// class is a class folder.
type class struct {
	Label        int32
	Start, Count uint32 // of its images in order
	Name         string // of the class, "" where it is not told
	Folder       string // "" for the digits of the label
	Named        bool   // some image in it has a name of its own
}

// u32s is an array of little-endian numbers in memory or in a mapped file.
type u32s []byte

func (a u32s) at(i int) uint32     { return binary.LittleEndian.Uint32(a[4*i:]) }
func (a u32s) set(i int, v uint32) { binary.LittleEndian.PutUint32(a[4*i:], v) }
func (a u32s) len() int            { return len(a) / 4 }

// folder returns the name of a class folder. Digits are padded so that names
// sort as labels do.
func (t *tree) folder(c *class) string {
	if c.Folder != "" {
		return c.Folder
	}
	return t.padded(c.Label)
}

func (t *tree) padded(label int32) string {
	s := strconv.Itoa(int(label))
	return strings.Repeat("0", max(t.digits-len(s), 0)) + s
}

// class finds the class folder of a name.
func (t *tree) class(name string) (int, bool) {
	if i, ok := t.byFolder[name]; ok {
		return i, true
	}
	if len(name) != t.digits {
		return 0, false
	}
	label, err := strconv.ParseInt(name, 10, 32)
	if err != nil {
		return 0, false
	}
	i, ok := t.classOf(int32(label))
	return i, ok && t.classes[i].Folder == "" && t.padded(int32(label)) == name
}

func (t *tree) classOf(label int32) (int, bool) {
	return slices.BinarySearchFunc(t.classes, label, func(c class, l int32) int {
		return int(int64(c.Label) - int64(l))
	})
}

// locate returns the record that holds an image, and its number there.
func (t *tree) locate(image int) (*record, int) {
	n := sort.Search(len(t.records), func(i int) bool { return int(t.records[i].First) > image })
	r := t.records[n-1]
	return r, image - int(r.First)
}

// found is what a path in a tree leads to.
type found struct {
	folder bool
	record *record // of an image
	index  int     // of an image in its record
	class  *class
}

// find looks for a path below the PCR folder.
func (t *tree) find(path string) (found, bool) {
	first, rest, deeper := strings.Cut(path, "/")
	n, ok := t.class(first)
	if !ok {
		return found{}, false
	}
	c := &t.classes[n]
	if !deeper {
		return found{folder: true, class: c}, true
	}
	if stem, ok := strings.CutSuffix(rest, RecordSuffix); ok {
		if image, ok := t.image(c, stem); ok {
			r, i := t.locate(image)
			return found{record: r, index: i, class: c}, true
		}
	}
	if c.Named && t.isFolder(c, rest) {
		return found{folder: true, class: c}, true
	}
	return found{}, false
}

// image finds the image of a class by its path in the class folder, without
// suffix.
func (t *tree) image(c *class, path string) (int, bool) {
	if !c.Named {
		image, ok := t.byNumber(path)
		return image, ok && t.isShown(c, image)
	}
	var buf nameBuffer
	n := t.lowerBound(c, path, &buf)
	if n == int(c.Count) {
		return 0, false
	}
	image := t.shown(c, n)
	return image, string(t.appendPath(buf[:0], image)) == path
}

// byNumber takes a name such as PCR_0-00012 apart.
func (t *tree) byNumber(name string) (int, bool) {
	dash := strings.LastIndexByte(name, '-')
	if dash < 0 {
		return 0, false
	}
	r, ok := t.byRecord[name[:dash]]
	if !ok || len(name)-dash-1 != r.digits() {
		return 0, false
	}
	index := 0
	for _, ch := range []byte(name[dash+1:]) {
		if ch < '0' || ch > '9' || index > r.Images {
			return 0, false
		}
		index = 10*index + int(ch-'0')
	}
	return int(r.First) + index, index < r.Images
}

// isShown reports whether an image is one of a class without names.
func (t *tree) isShown(c *class, image int) bool {
	n := sort.Search(int(c.Count), func(i int) bool { return t.shown(c, i) >= image })
	return n < int(c.Count) && t.shown(c, n) == image
}

// shown returns the n-th image of a class.
func (t *tree) shown(c *class, n int) int { return int(t.order.at(int(c.Start) + n)) }

// lowerBound returns the number of images of a class that come before a path.
func (t *tree) lowerBound(c *class, path string, buf *nameBuffer) int {
	return sort.Search(int(c.Count), func(i int) bool {
		return bytes.Compare(t.appendPath(buf[:0], t.shown(c, i)), []byte(path)) >= 0
	})
}

// isFolder reports whether images of a class lie below a path.
func (t *tree) isFolder(c *class, path string) bool {
	var buf nameBuffer
	n := t.lowerBound(c, path+"/", &buf)
	return n < int(c.Count) && bytes.HasPrefix(t.appendPath(buf[:0], t.shown(c, n)), []byte(path+"/"))
}

// cursor returns a function that gives the entries of a folder in the tree, one
// after another.
func (t *tree) cursor(path string) func() (DirEntry, bool) {
	first, inside, deeper := strings.Cut(path, "/")
	n, ok := t.class(first)
	if !ok {
		return func() (DirEntry, bool) { return DirEntry{}, false }
	}
	c := &t.classes[n]
	if !c.Named {
		return t.numbered(c)
	}
	prefix := ""
	if deeper {
		prefix = inside + "/"
	}
	return t.named(c, prefix)
}

// numbered goes through a class in which no image has a name.
func (t *tree) numbered(c *class) func() (DirEntry, bool) {
	var buf nameBuffer
	i := -1
	return func() (DirEntry, bool) {
		if i++; i >= int(c.Count) {
			return DirEntry{}, false
		}
		name := append(t.appendPath(buf[:0], t.shown(c, i)), RecordSuffix...)
		return DirEntry{Name: string(name), Kind: Regular}, true
	}
}

// named goes through the images of a class whose paths have a prefix, "" or a
// folder with a slash, and gives a folder below it once.
func (t *tree) named(c *class, prefix string) func() (DirEntry, bool) {
	var buf nameBuffer
	i := -1
	return func() (DirEntry, bool) {
		if i < 0 {
			i = t.lowerBound(c, prefix, &buf)
		}
		if i >= int(c.Count) {
			return DirEntry{}, false
		}
		name, ok := bytes.CutPrefix(t.appendPath(buf[:0], t.shown(c, i)), []byte(prefix))
		if !ok {
			return DirEntry{}, false
		}
		if slash := bytes.IndexByte(name, '/'); slash >= 0 {
			folder := string(name[:slash])
			i = t.lowerBound(c, prefix+folder+string(rune('/'+1)), &buf)
			return DirEntry{Name: folder, Kind: Dir}, true
		}
		i++
		return DirEntry{Name: string(name) + RecordSuffix, Kind: Regular}, true
	}
}
