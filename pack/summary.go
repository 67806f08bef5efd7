package pack

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"sort"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// A Refusal is a file, or a folder that could not be entered, which was left
// out, and why. In a report of Verify or Inspect it is a file that is bad.
type Refusal struct {
	Path   string // relative to the tree, slash-separated, bytes as on disk
	Reason string
}

// MarshalJSON writes path and reason. JSON holds text only: a path that is not
// UTF-8 has its bytes in path_base64 as well.
func (r Refusal) MarshalJSON() ([]byte, error) {
	out := struct {
		Path   string `json:"path"`
		Base64 string `json:"path_base64,omitempty"`
		Reason string `json:"reason"`
	}{Path: r.Path, Reason: r.Reason}
	out.Base64 = pathBase64(r.Path)
	return json.Marshal(out)
}

// pathBase64 returns the bytes of a path that is not UTF-8, "" for one that is.
func pathBase64(path string) string {
	if utf8.ValidString(path) {
		return ""
	}
	return base64.StdEncoding.EncodeToString([]byte(path))
}

// A LeftImage is an image of the source that passed through because its packed
// form would be larger by far.
type LeftImage struct {
	Path        string `json:"path"` // as in a Refusal
	Bytes       int64  `json:"bytes"`
	PackedBytes int64  `json:"packed_bytes"` // of its best coding; 0 where an earlier run had left it
}

// MarshalJSON writes the path as Refusal does.
func (l LeftImage) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Path        string `json:"path"`
		Base64      string `json:"path_base64,omitempty"`
		Bytes       int64  `json:"bytes"`
		PackedBytes int64  `json:"packed_bytes,omitempty"`
	}{l.Path, pathBase64(l.Path), l.Bytes, l.PackedBytes})
}

// Printable returns a name for one line of text: as it is where every
// character can be printed, else quoted with escapes.
func Printable(name string) string {
	plain := utf8.ValidString(name) && strings.IndexFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) < 0
	if plain && name == strings.TrimSpace(name) && name != "" && name[0] != '"' {
		return name
	}
	return strconv.Quote(name)
}

// A Tally is what files of one kind came to.
type Tally struct {
	Files    int   `json:"files"`
	BytesIn  int64 `json:"bytes_in"`
	BytesOut int64 `json:"bytes_out"`
}

func (t *Tally) add(in, out int64) {
	t.Files++
	t.BytesIn += in
	t.BytesOut += out
}

// Ratio returns BytesOut by BytesIn, 0 for nothing in.
func (t Tally) Ratio() float64 {
	if t.BytesIn == 0 {
		return 0
	}
	return float64(t.BytesOut) / float64(t.BytesIn)
}

// A Summary is what Pack or Unpack did. FilesIn is Converted.Files +
// Passed.Files + len(Refused); files that an earlier run had finished are
// counted in the first two, and again in AlreadyThere; those that took the
// place of an older output are counted again in Replaced.
type Summary struct {
	FilesIn      int              `json:"files_in"`
	Converted    Tally            `json:"converted"`      // images packed or unpacked
	Passed       Tally            `json:"passed_through"` // copied as they are
	Left         []LeftImage      `json:"left"`           // the images among those passed, ordered by path
	AlreadyThere int              `json:"already_there"`
	Replaced     int              `json:"replaced"`
	Refused      []Refusal        `json:"refused"`         // ordered by path
	NotHeld      int              `json:"not_held"`        // refused images that the mode has no room for, and ModeAuto has
	Formats      map[string]Tally `json:"formats"`         // the converted images, by format of the source
	Classes      int              `json:"classes"`         // folders of the first level
	Parts        []string         `json:"parts,omitempty"` // their names, where all are called as parts of a dataset are
	Seconds      float64          `json:"seconds"`
	PCR          *PCRTotals       `json:"pcr,omitempty"`
	Notes        []string         `json:"notes"`    // what the user may want to reconsider
	Doubled      int              `json:"doubled"`  // images that an earlier run has packed under another name, which is there still
	Finished     bool             `json:"finished"` // false: the run was ended early

	DoubledAs string `json:"doubled_as,omitempty"` // the first of those names, by path

	SourceUnfinished bool `json:"source_unfinished,omitempty"` // Unpack: the packed folder is not all that it is to be; a note says why
}

func newSummary() *Summary {
	return &Summary{Left: []LeftImage{}, Refused: []Refusal{}, Formats: map[string]Tally{}, Notes: []string{}}
}

func (s *Summary) refuse(r Refusal) {
	s.FilesIn++
	s.Refused = append(s.Refused, r)
}

// sourceUnfinished notes why a packed source is not finished, unless why is "".
func (s *Summary) sourceUnfinished(dir, why string) {
	if why != "" {
		s.SourceUnfinished = true
		s.Notes = append(s.Notes, fmt.Sprintf("%s is not finished: %s", Printable(dir), why))
	}
}

// record counts what became of the file at path.
func (s *Summary) record(path string, o outcome) {
	if o.fate == refused {
		s.refuse(Refusal{path, o.reason})
		if o.notHeld {
			s.NotHeld++
		}
		return
	}
	s.FilesIn++
	if o.already {
		s.AlreadyThere++
	}
	if o.replaced {
		s.Replaced++
	}
	if o.double != "" {
		s.Doubled++
		if s.DoubledAs == "" || o.double < s.DoubledAs {
			s.DoubledAs = o.double
		}
	}
	if o.fate == passed {
		s.Passed.add(o.in, o.out)
		if o.left {
			s.Left = append(s.Left, LeftImage{path, o.in, o.packed})
		}
		return
	}
	s.Converted.add(o.in, o.out)
	t := s.Formats[o.format]
	t.add(o.in, o.out)
	s.Formats[o.format] = t
}

// finish orders what concurrent workers added in any order.
func (s *Summary) finish(start time.Time) {
	sort.SliceStable(s.Refused, func(i, j int) bool { return s.Refused[i].Path < s.Refused[j].Path })
	sort.Slice(s.Left, func(i, j int) bool { return s.Left[i].Path < s.Left[j].Path })
	s.Seconds = time.Since(start).Seconds()
}

// fate is what became of a file.
type fate uint8

const (
	converted fate = iota + 1
	passed
	refused
)

// outcome is what became of one file, with its size before and after.
type outcome struct {
	fate     fate
	already  bool   // an earlier run had done it
	replaced bool   // it took the place of an older output
	format   string // of a converted image
	left     bool   // an image that passed because packing would not serve
	packed   int64  // bytes of the packed form of such an image
	double   string // another output that holds the same image
	in, out  int64  // bytes
	reason   string // why it was refused
	notHeld  bool   // an image that was refused for the mode alone
}

func refusal(reason string) outcome { return outcome{fate: refused, reason: reason} }
