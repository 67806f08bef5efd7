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
	look := d.firstLook(ctx, "", func(l *firstLook) bool { return l.l3 || l.records })
	switch {
	case look.l3 || look.records:
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

// Levels returns how many fidelities of the images below a folder differ, where
// that is known at little cost: of a folder in a PCR folder, or of one that has L3
// images and, as far as a first look goes, no records. Else it is 0.
func (d *Dataset) Levels(ctx context.Context, folder string) int {
	f, _, err := d.pcrFolderOf(ctx, folder)
	if err == nil && f == nil && checkPath(folder) == nil {
		f, err = d.folderAt(ctx, folder)
	}
	if err != nil {
		return 0
	}
	if f != nil {
		levels := 0
		for _, r := range f.records {
			levels = max(levels, r.levels())
		}
		return levels
	}
	if look := d.firstLook(ctx, folder, func(l *firstLook) bool { return l.records }); look.l3 && !look.records {
		return 1
	}
	return 0
}

// firstLook is what a first look has seen.
type firstLook struct {
	l3, records bool
	files       int            // that are not packed
	suffixes    map[string]int // of them, by suffix, "" for those without a plain one
	folders     []string       // that are still to be looked into
	read        int            // folders that were
	unread      int            // of them, such that cannot be
	seen        int            // files
	cut         bool           // there are more files than were looked at
	cutFolders  bool           // and folders
}

// firstLook looks at what is below a folder until there is nothing more, it was
// enough, or a limit is reached.
func (d *Dataset) firstLook(ctx context.Context, folder string, enough func(*firstLook) bool) *firstLook {
	ctx, cancel := context.WithTimeout(ctx, maxFirstLook)
	defer cancel()
	l := &firstLook{suffixes: map[string]int{}, folders: []string{folder}}
	for len(l.folders) > 0 && !l.cut && !enough(l) && ctx.Err() == nil {
		at := l.folders[0]
		l.folders = l.folders[1:]
		l.read++
		if err := d.store.ReadDir(ctx, at, func(e DirEntry) bool { return l.add(at, e) && !enough(l) }); err != nil {
			l.unread++ // who opens it is told why
		}
	}
	return l
}

// add looks at an entry, and reports whether more may be looked at.
func (l *firstLook) add(folder string, e DirEntry) bool {
	switch {
	case e.Kind == Dir && len(l.folders)+l.read < maxFirstFolders:
		l.folders = append(l.folders, join(folder, strings.Clone(e.Name)))
		return true
	case e.Kind == Dir:
		l.cutFolders = true
		return true
	case e.Kind != Regular || IsPacks(e.Name):
		return true
	case l.seen == maxFirstFiles:
		l.cut = true
		return false
	}
	l.seen++
	switch suffix := sampleSuffix(e.Name); {
	case suffix == SampleSuffix:
		l.l3 = true
	case suffix == RecordSuffix, e.Name == pcr.IndexNamePB, e.Name == pcr.IndexNameSQLite:
		l.records = true
	default:
		l.files++
		l.suffixes[plainSuffix(e.Name)]++
	}
	return true
}

// isCut reports whether there is more than was looked at.
func (l *firstLook) isCut() bool { return l.cut || l.cutFolders || len(l.folders) > 0 }

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
