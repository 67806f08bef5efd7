package fs

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"prismfs/tensor"
)

// View is how a dataset is presented: at which fidelity and as which files.
type View struct {
	// Fidelity k means scan groups 1..k; 0 means full fidelity. Formats with
	// one fidelity give it for any k.
	Fidelity int
	Form     tensor.Form
}

// DefaultView is full fidelity as .npy files.
var DefaultView = View{Form: tensor.Form{Container: tensor.NPY}}

// String returns the terms of the view, such as 3+png+rgb.
func (v View) String() string {
	if v.Fidelity == 0 {
		return v.Form.String()
	}
	return fmt.Sprintf("%d+%v", v.Fidelity, v.Form)
}

// errNoTerm says that a word is none of the view grammar.
var errNoTerm = errors.New("not a view term")

// terms are the words of a view that a name carries, one of each kind.
type terms struct {
	fidelity       int // 0: none
	container      tensor.Container
	hasContainer   bool
	chw, rgb, wide bool
}

// add takes one word. errNoTerm means that the word is none; any other error
// that it stands there wrongly.
func (t *terms) add(word string) error {
	if c, ok := tensor.ParseContainer(word); ok {
		if t.hasContainer {
			return fmt.Errorf("two file forms in one view (%s is the second)", word)
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
	k, ok := parseFidelity(word)
	if !ok {
		return errNoTerm
	}
	if t.fidelity != 0 {
		return fmt.Errorf("two fidelities in one view (%d and %d)", t.fidelity, k)
	}
	t.fidelity = k
	return nil
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

// apply returns v as the terms change it. A form that is written out starts
// afresh: rgb, chw and 16 of the default view do not carry over to it.
func (t terms) apply(v View) (View, error) {
	if t.fidelity != 0 {
		v.Fidelity = t.fidelity
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
		v.Form.Wide, v.Fidelity = false, 16
	}
	return v, v.Form.Check()
}

// ParseView reads a view as the --view flag has it: terms joined by +.
func ParseView(text string) (View, error) {
	var t terms
	for word := range strings.SplitSeq(text, "+") {
		err := t.add(word)
		if errors.Is(err, errNoTerm) {
			return View{}, fmt.Errorf("view %q: %q is not a view term; terms are a fidelity (1, 2, …), npy, png, ppm, raw, l3, jpg, orig, chw, rgb, 16", text, word)
		}
		if err != nil {
			return View{}, fmt.Errorf("view %q: %w", text, err)
		}
	}
	v, err := t.apply(DefaultView)
	if err != nil {
		return View{}, fmt.Errorf("view %q: %w", text, err)
	}
	return v, nil
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
