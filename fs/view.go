package fs

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"prismfs/order"
	"prismfs/tensor"
)

// View is how a dataset is presented: at which fidelity and as which files.
type View struct {
	// Fidelity k means scan groups 1..k; 0 means full fidelity. Formats with
	// one fidelity give it for any k.
	Fidelity int
	// Auto names the setting that Fidelity is taken from when a file is looked
	// up. The zero value is none.
	Auto AutoView
	Form tensor.Form
	// Echo and Stream say that and how the folder's images are served several
	// times, and as shards. At most one of them is set: streams have echoes of
	// their own.
	Echo   order.EchoView
	Stream order.StreamView
}

// AutoView names a fidelity that is set while the mount runs: by the folder
// that carries the term, and by the term. Views of one folder that differ in
// their form alone share it.
type AutoView struct {
	Folder string // path in the source
	Word   string // auto or auto-NAME; "" for none
}

// String returns the path of the view below the mount point.
func (a AutoView) String() string { return a.Folder + "+" + a.Word }

// DefaultView is full fidelity as .npy files.
var DefaultView = View{Form: tensor.Form{Container: tensor.NPY}}

// String returns the terms of the view, such as 3+png+rgb.
func (v View) String() string {
	words := []string{v.Form.String()}
	switch {
	case v.Auto.Word != "":
		words = []string{v.Auto.Word, v.Form.String()}
	case v.Fidelity != 0:
		words = []string{strconv.Itoa(v.Fidelity), v.Form.String()}
	}
	return strings.Join(append(words, v.readingOrder().words()...), "+")
}

// errNoTerm says that a word is none of the view grammar.
var errNoTerm = errors.New("not a view term")

// terms are the words of a view that a name carries, one of each kind.
type terms struct {
	fidelity       int    // 0: none
	auto           string // "": none
	container      tensor.Container
	hasContainer   bool
	chw, rgb, wide bool
	reading        readingTerms
}

// add takes one word. errNoTerm means that the word is none; any other error
// that it stands there wrongly.
func (t *terms) add(word string) error {
	if c, ok := tensor.ParseContainer(word); ok {
		if t.hasContainer {
			return fmt.Errorf("two file forms in one view (%v and %s)", t.container, word)
		}
		t.container, t.hasContainer = c, true
		return nil
	}
	flag := map[string]*bool{"chw": &t.chw, "rgb": &t.rgb, "16": &t.wide}[word]
	if flag != nil {
		if *flag {
			return fmt.Errorf("the term %s stands twice", word)
		}
		*flag = true
		return nil
	}
	if err := t.reading.add(word); !errors.Is(err, errNoTerm) {
		return err
	}
	return t.addFidelity(word)
}

func (t *terms) addFidelity(word string) error {
	k, number := parseFidelity(word)
	if !number && !isAuto(word) {
		return errNoTerm
	}
	switch {
	case t.auto != "":
		return fmt.Errorf("two fidelities in one view (%s and %s)", t.auto, word)
	case t.fidelity != 0:
		return fmt.Errorf("two fidelities in one view (%d and %s)", t.fidelity, word)
	case number:
		t.fidelity = k
	default:
		t.auto = word
	}
	return nil
}

const (
	autoWord = "auto"
	// maxAutoName bounds the names of auto views, and of plans, in bytes.
	maxAutoName = 64
)

// isAuto recognises auto and auto-NAME.
func isAuto(word string) bool {
	rest, ok := strings.CutPrefix(word, autoWord)
	if !ok || rest == "" {
		return ok
	}
	name, ok := strings.CutPrefix(rest, "-")
	return ok && isPlainName(name)
}

// isPlainName recognises names that need no quoting anywhere.
func isPlainName(name string) bool {
	if name == "" || len(name) > maxAutoName {
		return false
	}
	for _, c := range []byte(name) {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (c < '0' || c > '9') && c != '-' && c != '_' && c != '.' {
			return false
		}
	}
	return true
}

// maxFidelity bounds the numbers that are terms; longer ones are names.
const maxFidelity = 1_000_000

func parseFidelity(word string) (int, bool) {
	if word == "" || word[0] < '1' || word[0] > '9' {
		return 0, false
	}
	k, err := strconv.Atoi(word)
	return k, err == nil && k <= maxFidelity
}

// rangeOf says what a word that is no term may have had in mind: the numbers that
// a term of its kind takes.
func rangeOf(word string) string {
	kind := strings.TrimRight(word, "0123456789.-")
	if text, ok := readingRanges[kind]; ok {
		return ": " + text
	}
	rest, rank := strings.CutPrefix(word, rankWord)
	if rank && strings.Trim(strings.Replace(rest, "of", "", 1), "0123456789-") == "" {
		return ": " + readingRanges[rankWord]
	}
	if word != "" && kind == "" {
		return fmt.Sprintf(": fidelities are whole numbers from 1 to %d", maxFidelity)
	}
	return ""
}

// apply returns v as the terms change it, which a folder of the source carries.
// A form that is written out starts afresh: rgb, chw and 16 of the default view
// do not carry over to it.
func (t terms) apply(v View, folder string) (View, error) {
	switch {
	case t.fidelity != 0:
		v.Fidelity, v.Auto = t.fidelity, AutoView{}
	case t.auto != "":
		v.Fidelity, v.Auto = 0, AutoView{Folder: folder, Word: t.auto}
	}
	if t.hasContainer {
		v.Form = tensor.Form{Container: t.container}
	}
	v.Form.CHW = v.Form.CHW || t.chw
	v.Form.RGB = v.Form.RGB || t.rgb
	v.Form.Wide = v.Form.Wide || t.wide
	// 16 is both a number and the word for 16-bit Netpbm samples: it is the
	// word where there is a Netpbm form for it to speak of.
	if t.wide && v.Form.Container != tensor.PPM && t.fidelity == 0 {
		if t.auto != "" {
			return v, fmt.Errorf("two fidelities in one view (%s and 16)", t.auto)
		}
		v.Form.Wide, v.Fidelity, v.Auto = false, 16, AutoView{}
	}
	if err := t.reading.apply(&v, folder); err != nil {
		return v, err
	}
	return v, v.Form.Check()
}

// ParseView reads a view as the --view flag has it: terms joined by +. The order
// of reading is not for a whole mount: then nothing could be read without it.
func ParseView(text string) (View, error) {
	t, err := parseTerms(text)
	if err != nil {
		return View{}, err
	}
	if t.reading.any() {
		return View{}, fmt.Errorf("view %q: echo, stream and what belongs to them are terms of folders, not of a whole mount; read MOUNTPOINT/+%s instead", text, text)
	}
	v, err := t.apply(DefaultView, "")
	if err != nil {
		return View{}, fmt.Errorf("view %q: %w", text, err)
	}
	return v, nil
}

func parseTerms(text string) (terms, error) {
	var t terms
	for word := range strings.SplitSeq(text, "+") {
		err := t.add(word)
		if limits := rangeOf(word); errors.Is(err, errNoTerm) && limits != "" {
			return t, fmt.Errorf("view %q: %q is not a view term%s", text, word, limits)
		}
		if errors.Is(err, errNoTerm) {
			return t, fmt.Errorf("view %q: %q is not a view term; terms are a fidelity (1, 2, …, auto, auto-NAME), npy, png, ppm, raw, l3, jpg, orig, chw, rgb, 16", text, word)
		}
		if err != nil {
			return t, fmt.Errorf("view %q: %w", text, err)
		}
	}
	return t, nil
}

// split is one way to read a name: what remains when some terms are taken off
// its end.
type split struct {
	base  string
	terms terms
}

// splits lists the readings of name that take off at least one term, longest
// base first, and ends where a word is no term. An error says why the rest of
// the name cannot be a view, though its words are terms.
func splits(name string) ([]split, error) {
	var out []split
	var t terms
	for {
		cut := strings.LastIndexByte(name, '+')
		if cut < 0 {
			return out, nil
		}
		err := t.add(name[cut+1:])
		if errors.Is(err, errNoTerm) {
			return out, nil
		}
		if err != nil {
			return out, err
		}
		name = name[:cut]
		out = append(out, split{base: name, terms: t})
	}
}
