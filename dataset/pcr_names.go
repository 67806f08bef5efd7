package dataset

import (
	"bytes"
	"path"
	"slices"
	"strconv"
	"strings"
)

// The forms that the name of an image can have. An image whose name would be
// that of another one, or of a folder, gets the next form, and so does the other
// if it has a name of its own. A class in which nothing collides has form 1
// throughout, one without names form 0.
const (
	formNumber   byte = iota // PCR_0-00012: the record, and the place in it
	formStem                 // cat/a: the original name without its suffix
	formFull                 // cat/a.jpg: with it
	formBoth                 // cat/a.jpg-PCR_0-00012
	formReserved             // ~image-12, which no other form gives

	// formUnique is set besides where an image in one of the last two forms is the
	// only one of its folder with its original name. In the forms before it always is.
	formUnique byte = 0x80
)

// reservedName begins names of the last form. Original names that begin so are
// not used.
const reservedName = "~image-"

// nameDigits is what the place in a record is padded to.
const nameDigits = 5

const (
	// maxNameBytes bounds a part of an original name: no file system that it could
	// come from has longer ones.
	maxNameBytes = 255
	// maxPathBytes bounds an original name with its folders.
	maxPathBytes = 1024
)

// nameBuffer is room for the name of an image.
type nameBuffer [maxPathBytes + 256]byte

// usableName says whether an original name can be a path below a class folder.
func usableName(name string) bool {
	if len(name) > maxPathBytes || strings.HasPrefix(name, reservedName) || name == "" {
		return false
	}
	for part := range strings.SplitSeq(name, "/") {
		if !usablePart(part) {
			return false
		}
	}
	return true
}

func usablePart(part string) bool {
	return part != "" && part != "." && part != ".." && len(part) <= maxNameBytes && strings.IndexByte(part, 0) < 0
}

// original returns the name of an image before it was packed, "" for none.
func (t *tree) original(image int) []byte {
	if len(t.nameEnds) == 0 {
		return nil
	}
	from := uint32(0)
	if image > 0 {
		from = t.nameEnds.at(image - 1)
	}
	return t.names[from:t.nameEnds.at(image)]
}

// appendPath appends the path of an image in its class folder, without suffix.
func (t *tree) appendPath(dst []byte, image int) []byte {
	if len(t.forms) == 0 {
		return t.appendNumber(dst, image)
	}
	switch t.form(image) {
	case formStem:
		name := t.original(image)
		return append(dst, name[:len(name)-suffixBytes(name)]...)
	case formFull:
		return append(dst, t.original(image)...)
	case formBoth:
		return t.appendNumber(append(append(dst, t.original(image)...), '-'), image)
	case formReserved:
		return strconv.AppendInt(append(dst, reservedName...), int64(image), 10)
	}
	return t.appendNumber(dst, image)
}

// form returns the form of the name of an image.
func (t *tree) form(image int) byte { return t.forms[image] &^ formUnique }

// isUnique reports whether no other image of its folder has the original name of
// an image.
func (t *tree) isUnique(image int) bool {
	if len(t.forms) == 0 {
		return false
	}
	form := t.forms[image]
	return form == formStem || form == formFull || form&formUnique != 0
}

// markUnique notes which images have an original name of their own, among those
// whose names were in the way of others.
func (t *tree) markUnique(images []uint32) {
	count := map[string]int{}
	far := func(image uint32) bool {
		form := t.form(int(image))
		return form == formBoth || form == formReserved
	}
	for _, image := range images {
		if far(image) {
			count[string(t.original(int(image)))]++
		}
	}
	for _, image := range images {
		if !far(image) || count[string(t.original(int(image)))] > 1 {
			continue
		}
		// The last form takes an image out of its folder.
		if t.form(int(image)) == formReserved && bytes.IndexByte(t.original(int(image)), '/') >= 0 {
			continue
		}
		t.forms[image] |= formUnique
	}
}

// byOriginal finds the image of a class that alone has an original name, with
// the folders that it is in.
func (t *tree) byOriginal(c *class, name string) (image int, ok bool) {
	if !c.Named || !usableName(name) {
		return 0, false
	}
	is := func(image int) bool { return t.isUnique(image) && string(t.original(image)) == name }
	for _, path := range [...]string{name[:len(name)-suffixBytes([]byte(name))], name} {
		if image, ok := t.image(c, path); ok && is(image) {
			return image, true
		}
	}
	var buf nameBuffer
	for _, prefix := range [...]string{name + "-", reservedName} {
		for n := t.lowerBound(c, prefix, &buf); n < int(c.Count); n++ {
			image := t.shown(c, n)
			if !bytes.HasPrefix(t.appendPath(buf[:0], image), []byte(prefix)) {
				break
			}
			if is(image) {
				return image, true
			}
		}
	}
	return 0, false
}

// suffixBytes returns the length of a name's suffix; what is all suffix has none.
func suffixBytes(name []byte) int {
	base := name[bytes.LastIndexByte(name, '/')+1:]
	if dot := bytes.LastIndexByte(base, '.'); dot > 0 {
		return len(base) - dot
	}
	return 0
}

func (t *tree) appendNumber(dst []byte, image int) []byte {
	r, index := t.locate(image)
	dst = append(append(dst, r.stem...), '-')
	var digits [20]byte
	number := strconv.AppendInt(digits[:0], int64(index), 10)
	for range r.digits() - len(number) {
		dst = append(dst, '0')
	}
	return append(dst, number...)
}

// digits returns how many digits the places in a record are written with.
func (r *record) digits() int { return max(nameDigits, len(strconv.Itoa(max(r.Images-1, 0)))) }

// nameClass gives every image of a class a path of its own, and orders the class
// by path.
func (t *tree) nameClass(c *class) {
	images := make([]uint32, c.Count)
	for i := range images {
		images[i] = t.order.at(int(c.Start) + i)
	}
	for round := 1; ; round++ {
		t.sortByPath(images)
		if !t.raiseForms(images, round > fairRounds) {
			break
		}
	}
	t.markUnique(images)
	for i, image := range images {
		t.order.set(int(c.Start)+i, image)
	}
}

// sortByPath sorts images, which are sorted already where pack took them in
// order.
func (t *tree) sortByPath(images []uint32) {
	var x, y nameBuffer
	less := func(a, b uint32) int {
		return bytes.Compare(t.appendPath(x[:0], int(a)), t.appendPath(y[:0], int(b)))
	}
	if !slices.IsSortedFunc(images, less) {
		slices.SortFunc(images, less)
	}
}

// fairRounds is how often names are made longer one step at a time. Names that
// are made to collide with each other's longer ones get the last form at once.
const fairRounds = 4

// raiseForms looks for equal paths among sorted images, and for files that have
// the name of a folder, and gives them the next form, or the last one. It
// reports whether there were any.
func (t *tree) raiseForms(images []uint32, toLast bool) bool {
	raised := false
	raise := func(image uint32) {
		switch form := t.form(int(image)); {
		case form == formNumber || form == formReserved:
			return
		case toLast:
			t.forms[image] = formReserved
		default:
			t.forms[image] = form + 1
		}
		raised = true
	}
	folders := t.foldersOf(images)
	var x, y nameBuffer
	for i := 0; i < len(images); {
		p := t.appendPath(x[:0], int(images[i]))
		end := i + 1
		for end < len(images) && bytes.Equal(p, t.appendPath(y[:0], int(images[end]))) {
			end++
		}
		if end > i+1 || len(folders) > 0 && folders[string(p)+RecordSuffix] {
			for _, same := range images[i:end] {
				raise(same)
			}
		}
		i = end
	}
	return raised
}

// foldersOf returns the folders in a class whose names end as those of images
// do: only they can be in the way.
func (t *tree) foldersOf(images []uint32) map[string]bool {
	var folders map[string]bool
	for _, image := range images {
		name := t.original(int(image))
		if bytes.IndexByte(name, '/') < 0 || t.form(int(image)) == formNumber || t.form(int(image)) == formReserved {
			continue
		}
		for dir := path.Dir(string(name)); dir != "."; dir = path.Dir(dir) {
			if strings.HasSuffix(dir, RecordSuffix) {
				if folders == nil {
					folders = make(map[string]bool)
				}
				folders[dir] = true
			}
		}
	}
	return folders
}
