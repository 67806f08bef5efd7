package dataset

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"

	"prismfs/pcr"
)

// A first look at a source is over after so many files, folders and time,
// whichever comes first: enough to tell a folder of plain images from a packed one,
// and not felt by who mounts.
const (
	maxFirstFiles   = 1000
	maxFirstFolders = 64
	maxFirstLook    = time.Second
	// maxShownSuffixes is how many kinds of files are counted by name.
	maxShownSuffixes = 3
	maxSuffixBytes   = 8
)

// Unpacked takes a first look at the source, by names alone, and returns a line
// that says what was found where nothing of it is packed, "" where something is. The
// look is bounded: in a source that has its packed images behind many other files
// it may find none of them, and the line says how far it went.
func (d *Dataset) Unpacked(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, maxFirstLook)
	defer cancel()
	look := firstLook{suffixes: map[string]int{}, folders: []string{""}}
	for len(look.folders) > 0 && !look.packed && look.files < maxFirstFiles && look.read < maxFirstFolders && ctx.Err() == nil {
		folder := look.folders[0]
		look.folders = look.folders[1:]
		look.read++
		if err := d.store.ReadDir(ctx, folder, func(e DirEntry) bool { return look.at(folder, e) }); err != nil {
			look.unread++ // who opens it is told why
		}
	}
	switch {
	case look.packed:
		return ""
	case look.files == 0 && look.unread > 0:
		return fmt.Sprintf("no packed images were found in %s, and %s cannot be read", d.full(""), english.Plural(look.unread, "folder", ""))
	case look.files == 0 && look.isCut():
		return fmt.Sprintf("no files were found in the first %s of %s", english.Plural(look.read, "folder", ""), d.full(""))
	case look.files == 0:
		return fmt.Sprintf("there are no files in %s; what is put there is shown as soon as it is there", d.full(""))
	}
	return fmt.Sprintf("no packed images among %s of %s (%s): plain files are shown as they are; 'prismfs pack' makes a folder of packed images",
		look.extent(), d.full(""), look.kinds())
}

// firstLook counts the files that a first look has seen.
type firstLook struct {
	files    int
	suffixes map[string]int // by suffix, "" for those without a plain one
	packed   bool
	folders  []string // that are still to be looked into
	read     int      // folders that were
	unread   int      // of them, such that cannot be
	cut      bool     // there are more files than were looked at
}

// at looks at an entry, and says whether to go on.
func (l *firstLook) at(folder string, e DirEntry) bool {
	if e.Kind == Dir {
		if len(l.folders)+l.read < maxFirstFolders {
			l.folders = append(l.folders, join(folder, strings.Clone(e.Name)))
		} else {
			l.cut = true
		}
		return true
	}
	if e.Kind != Regular || e.Name == PackMarker {
		return true
	}
	if IsSample(e.Name) || e.Name == pcr.IndexNamePB || e.Name == pcr.IndexNameSQLite {
		l.packed = true
		return false
	}
	if l.files == maxFirstFiles {
		l.cut = true
		return false
	}
	l.files++
	l.suffixes[plainSuffix(e.Name)]++
	return true
}

// isCut reports whether there is more than was looked at.
func (l *firstLook) isCut() bool { return l.cut || len(l.folders) > 0 }

// extent says how many files were looked at, and whether that is all of them.
func (l *firstLook) extent() string {
	text := english.Plural(l.files, "file", "")
	if l.isCut() {
		return "the first " + text
	}
	return "the " + text
}

// kinds lists the most frequent suffixes, and how many other files there are.
func (l *firstLook) kinds() string {
	var parts []string
	rest := l.files
	names := slices.SortedFunc(maps.Keys(l.suffixes), func(a, b string) int {
		return cmp.Or(cmp.Compare(l.suffixes[b], l.suffixes[a]), strings.Compare(a, b))
	})
	for _, suffix := range names {
		if suffix != "" && len(parts) < maxShownSuffixes {
			parts = append(parts, humanize.Comma(int64(l.suffixes[suffix]))+" "+suffix)
			rest -= l.suffixes[suffix]
		}
	}
	switch {
	case len(parts) == 0:
		return "none with a suffix"
	case rest > 0:
		parts = append(parts, english.Plural(rest, "other", ""))
	}
	return strings.Join(parts, ", ")
}

// plainSuffix returns the suffix of a name in lower case, "" where it has none
// that people would call one.
func plainSuffix(name string) string {
	suffix := strings.ToLower(path.Ext(name))
	if len(suffix) < 2 || len(suffix) > maxSuffixBytes || len(suffix) == len(name) {
		return ""
	}
	for _, c := range suffix[1:] {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return ""
		}
	}
	return suffix
}
