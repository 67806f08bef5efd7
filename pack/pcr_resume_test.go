package pack

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"prismfs/pcr"
)

// resumablePCR is a packed tree of 9 images in 3 records, one of them refused.
func resumablePCR(t testing.TB) (src, dst string) {
	src, dst = pcrTree(t, 3), filepath.Join(t.TempDir(), "dst")
	writeTree(t, src, map[string][]byte{"a/00z.jpg": jpegBytes(t, 40)[:300]})
	for _, name := range names(t, src) {
		setTime(t, filepath.Join(src, name), time.Unix(1700000000, 987654321))
	}
	mustPackPCR(t, src, dst, PCROptions{ImagesPerRecord: 4})
	return src, dst
}

// without returns the listing of a folder without the folder itself, whose time
// changes with the marker.
func without(listing map[string]string) map[string]string {
	delete(listing, ".")
	return listing
}

func TestResumePCRLeavesWhatIsDone(t *testing.T) {
	src, dst := resumablePCR(t)
	before := without(listing(t, dst))
	first := mustPackPCR(t, src, filepath.Join(t.TempDir(), "other"), PCROptions{ImagesPerRecord: 4})
	second := mustPackPCR(t, src, dst, PCROptions{ImagesPerRecord: 4, Jobs: 1})
	if second.PCR.RecordsKept != 3 || second.AlreadyThere != 10 || second.Replaced != 0 {
		t.Errorf("%v %+v", second, second.PCR)
	}
	if first.Converted != second.Converted || !cmp.Equal(first.Refused, second.Refused) || !cmp.Equal(first.Formats, second.Formats) {
		t.Errorf("a resumed run comes to %v, a fresh one to %v", second, first)
	}
	if diff := cmp.Diff(before, without(listing(t, dst))); diff != "" {
		t.Errorf("the destination changed:\n%s", diff)
	}
}

func TestResumePCRAfterChanges(t *testing.T) {
	newer := time.Unix(1800000000, 0)
	four := PCROptions{ImagesPerRecord: 4}
	seed := uint64(3)
	for _, c := range []struct {
		name    string
		change  func(t *testing.T, src, dst string)
		opt     PCROptions
		records int
		kept    int
		removed int
	}{
		{"nothing", func(*testing.T, string, string) {}, four, 3, 3, 0},
		{"a source of the second record", func(t *testing.T, src, _ string) {
			writeTree(t, src, map[string][]byte{"a/01.jpg": jpegBytes(t, 99)})
		}, four, 3, 2, 0},
		{"a source that is older now", func(t *testing.T, src, _ string) {
			setTime(t, filepath.Join(src, "Z/00.jpg"), time.Unix(1600000000, 0))
		}, four, 3, 2, 0},
		{"a refused source that is whole now", func(t *testing.T, src, _ string) {
			writeTree(t, src, map[string][]byte{"a/00z.jpg": jpegBytes(t, 40)})
		}, four, 3, 1, 0},
		{"a new image at the end", func(t *testing.T, src, _ string) {
			writeTree(t, src, map[string][]byte{"b/99.jpg": jpegBytes(t, 41)})
		}, four, 3, 2, 0},
		{"a new image at the end that is broken", func(t *testing.T, src, _ string) {
			writeTree(t, src, map[string][]byte{"b/99.jpg": nil})
		}, four, 3, 3, 0},
		{"images that are gone", func(t *testing.T, src, _ string) {
			if err := os.RemoveAll(filepath.Join(src, "b")); err != nil {
				t.Fatal(err)
			}
			writeTree(t, src, map[string][]byte{"b/": nil})
		}, four, 2, 1, 1},
		{"a class that is gone", func(t *testing.T, src, _ string) {
			if err := os.RemoveAll(filepath.Join(src, "b")); err != nil {
				t.Fatal(err)
			}
		}, four, 2, 0, 1},
		{"a new class at the end", func(t *testing.T, src, _ string) {
			writeTree(t, src, map[string][]byte{"q/": nil})
		}, four, 3, 0, 0},
		{"a new class in front", func(t *testing.T, src, _ string) {
			writeTree(t, src, map[string][]byte{"A/0.jpg": jpegBytes(t, 5)})
		}, four, 3, 0, 0},
		{"another quality", func(*testing.T, string, string) {}, PCROptions{ImagesPerRecord: 4, Quality: 50}, 3, 0, 0},
		{"larger records", func(*testing.T, string, string) {}, PCROptions{ImagesPerRecord: 40}, 1, 0, 2},
		{"another order", func(*testing.T, string, string) {}, PCROptions{ImagesPerRecord: 4, ShuffleSeed: &seed}, 3, 0, 0},
		{"a record that was cut", func(t *testing.T, _, dst string) {
			truncate(t, filepath.Join(dst, "PCR_1.pcr"), 200)
		}, four, 3, 2, 0},
		{"a record that is gone", func(t *testing.T, _, dst string) {
			if err := os.Remove(filepath.Join(dst, "PCR_0.pcr")); err != nil {
				t.Fatal(err)
			}
		}, four, 3, 2, 0},
		{"a lost index", func(t *testing.T, _, dst string) {
			if err := os.Remove(filepath.Join(dst, pcr.IndexNamePB)); err != nil {
				t.Fatal(err)
			}
		}, four, 3, 3, 0},
		{"a killed run that left half a record", func(t *testing.T, _, dst string) {
			killed(t, dst)
		}, four, 3, 3, 0},
		{"a killed run and a damaged record", func(t *testing.T, _, dst string) {
			killed(t, dst)
			flipFromEnd(t, filepath.Join(dst, "PCR_1.pcr"), 20)
		}, four, 3, 2, 0},
		{"one time of a touched source", func(t *testing.T, src, _ string) {
			setTime(t, filepath.Join(src, "b/02.jpg"), newer)
		}, four, 3, 2, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			src, dst := resumablePCR(t)
			c.change(t, src, dst)
			s := mustPackPCR(t, src, dst, c.opt)
			if s.PCR.Records != c.records || s.PCR.RecordsKept != c.kept || s.PCR.RecordsStale != c.removed {
				t.Errorf("%d records, %d kept, %d removed; expected %d, %d and %d", s.PCR.Records, s.PCR.RecordsKept, s.PCR.RecordsStale, c.records, c.kept, c.removed)
			}
			sameAsFresh(t, src, dst, c.opt)
		})
	}
}

// killed makes a destination look as after a run that was killed.
func killed(t testing.TB, dst string) {
	writeTree(t, dst, map[string][]byte{Marker: []byte(markerText), tempPrefix + "X": []byte("half a record")})
	if err := os.Remove(filepath.Join(dst, pcr.IndexNamePB)); err != nil {
		t.Fatal(err)
	}
}

// flipFromEnd changes a byte of a file, counted from its end.
func flipFromEnd(t testing.TB, path string, at int) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)-at] ^= 0x55
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

// sameAsFresh compares a destination with one that is made at once, by
// everything but times.
func sameAsFresh(t *testing.T, src, dst string, opt PCROptions) {
	t.Helper()
	fresh := filepath.Join(t.TempDir(), "fresh")
	mustPackPCR(t, src, fresh, opt)
	if diff := cmp.Diff(names(t, fresh), names(t, dst)); diff != "" {
		t.Fatalf("other files than in a fresh destination:\n%s", diff)
	}
	for _, name := range names(t, fresh) {
		a, errA := os.ReadFile(filepath.Join(fresh, name))
		b, errB := os.ReadFile(filepath.Join(dst, name))
		if errA != nil || errB != nil || string(a) != string(b) {
			t.Errorf("%s is not as in a fresh destination (%v, %v)", name, errA, errB)
		}
	}
}

func TestPackPCRDestinationsOfOthers(t *testing.T) {
	for _, c := range []struct {
		name string
		make func(t *testing.T, dst string)
		part string
	}{
		{"records of another source", func(t *testing.T, dst string) { mustPackPCR(t, pcrTree(t, 2), dst, PCROptions{}) }, "was not made from"},
		{"records of another program", func(t *testing.T, dst string) {
			record, entry, err := pcr.AppendRecord(nil, []pcr.Image{{JPEG: progressiveJPEG(t, 1), Label: 0}}, pcr.RecordInfo{Bare: true})
			if err != nil || entry.Levels() != 10 {
				t.Fatal(entry, err)
			}
			writeTree(t, dst, map[string][]byte{"PCR_0.pcr": record})
		}, "was not made from"},
		{"a record of an unusual name", func(t *testing.T, dst string) { writeTree(t, dst, map[string][]byte{"mine.pcr": nil}) }, "mine.pcr"},
		{"a number with a zero in front", func(t *testing.T, dst string) { writeTree(t, dst, map[string][]byte{"PCR_00.pcr": nil}) }, "PCR_00.pcr"},
		{"damaged records", func(t *testing.T, dst string) { writeTree(t, dst, map[string][]byte{"PCR_0.pcr": []byte("x")}) }, "damaged"},
		{"an index of the other kind", func(t *testing.T, dst string) { writeTree(t, dst, map[string][]byte{"PCR.db": nil}) }, "PCR.db"},
		{"an index alone", func(t *testing.T, dst string) { writeTree(t, dst, map[string][]byte{"PCR_index.pb": nil}) }, "index without records"},
		{"a folder with the name of a class", func(t *testing.T, dst string) { writeTree(t, dst, map[string][]byte{"a/mine": nil}) }, "name of a class"},
		{"a file with the name of a class", func(t *testing.T, dst string) { writeTree(t, dst, map[string][]byte{"a": nil}) }, "name of a class"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dst := filepath.Join(t.TempDir(), "dst")
			c.make(t, dst)
			before := without(listing(t, dst))
			_, err := PackPCR(context.Background(), pcrTree(t, 2), dst, PCROptions{})
			if !errors.Is(err, ErrDestination) || !strings.Contains(err.Error(), c.part) {
				t.Errorf("error %v", err)
			}
			if diff := cmp.Diff(before, without(listing(t, dst))); diff != "" {
				t.Errorf("the destination changed:\n%s", diff)
			}
		})
	}
}

// A run that is interrupted leaves whole records and no index, and the next one
// goes on.
func TestInterruptedPackPCRGoesOn(t *testing.T) {
	src, dst := pcrTree(t, 8), filepath.Join(t.TempDir(), "dst")
	ctx, cancel := context.WithCancel(context.Background())
	opt := PCROptions{ImagesPerRecord: 5, Jobs: 2}
	stopping := opt
	stopping.Progress = func(done, total int) {
		if total != 25 {
			t.Errorf("a total of %d", total)
		}
		if done == 13 {
			cancel()
		}
	}
	s, err := PackPCR(ctx, src, dst, stopping)
	if !errors.Is(err, context.Canceled) || s == nil || s.Finished || s.PCR.Records != 2 || s.Converted.Files != 10 {
		t.Fatalf("%v %v", s, err)
	}
	checkSum(t, s)
	if diff := cmp.Diff([]string{Marker, "PCR_0.pcr", "PCR_1.pcr", "README"}, names(t, dst)); diff != "" {
		t.Errorf("files after an interruption:\n%s", diff)
	}
	if s := mustPackPCR(t, src, dst, opt); s.PCR.RecordsKept != 2 || s.PCR.Records != 5 {
		t.Errorf("%+v", s.PCR)
	}
	sameAsFresh(t, src, dst, opt)
}

// interruptPCR packs until so many sources are done.
func interruptPCR(t *testing.T, src, dst string, opt PCROptions, after int) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	opt.Progress = func(done, _ int) {
		if done == after {
			cancel()
		}
	}
	if _, err := PackPCR(ctx, src, dst, opt); !errors.Is(err, context.Canceled) {
		t.Fatalf("the run was not interrupted: %v", err)
	}
}

// Packing with other options, interrupted anywhere, shows no image twice, and comes
// to what a fresh run makes.
func TestRepackedPCRShowsNoImageTwice(t *testing.T) {
	seed := uint64(7)
	for name, opt := range map[string]PCROptions{
		"larger records": {ImagesPerRecord: 5}, "smaller records": {ImagesPerRecord: 2}, "another order": {ImagesPerRecord: 3, ShuffleSeed: &seed},
		"another quality": {ImagesPerRecord: 3, Quality: 30},
	} {
		t.Run(name, func(t *testing.T) {
			src := pcrTree(t, 4)
			for after := 2; after < 13; after += 2 {
				dst := filepath.Join(t.TempDir(), "dst")
				mustPackPCR(t, src, dst, PCROptions{ImagesPerRecord: 3})
				interruptPCR(t, src, dst, opt, after)
				seen := map[string]string{}
				for record, images := range recordFileImages(t, dst) {
					for _, image := range images {
						if seen[image] != "" {
							t.Errorf("interrupted after %d: %s is in %s and in %s", after, image, record, seen[image])
						}
						seen[image] = record
					}
				}
				if s := mustPackPCR(t, src, dst, opt); s.Converted.Files != 12 {
					t.Errorf("%v", s)
				}
				sameAsFresh(t, src, dst, opt)
			}
		})
	}
}

// recordFileImages is recordImages of the records that are there, by their class
// labels, without an index.
func recordFileImages(t testing.TB, dst string) map[string][]string {
	t.Helper()
	root, err := os.OpenRoot(dst)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	out := map[string][]string{}
	for _, name := range names(t, dst) {
		if !pcr.IsRecordName(name) {
			continue
		}
		r, err := (&target{root: root}).openRecord(name, name)
		if err != nil {
			t.Fatal(err)
		}
		for i, image := range r.meta.Extension.Names {
			out[name] = append(out[name], fmt.Sprint(r.meta.Labels[i], "/", image))
		}
		r.Close()
	}
	return out
}

// A repack takes records of others away no more than a first run does.
func TestRepackedPCRLeavesRecordsOfOthers(t *testing.T) {
	src, dst := pcrTree(t, 4), filepath.Join(t.TempDir(), "dst")
	mustPackPCR(t, src, dst, PCROptions{ImagesPerRecord: 3})
	other := filepath.Join(t.TempDir(), "other")
	mustPackPCR(t, pcrTree(t, 4), other, PCROptions{})
	record, err := os.ReadFile(filepath.Join(other, "PCR_0.pcr"))
	if err != nil {
		t.Fatal(err)
	}
	writeTree(t, dst, map[string][]byte{"PCR_9.pcr": record})
	s := mustPackPCR(t, src, dst, PCROptions{ImagesPerRecord: 6})
	if notes := strings.Join(s.Notes, "\n"); s.PCR.RecordsStale != 2 || !strings.Contains(notes, "PCR_9.pcr in the destination was not made from this source") {
		t.Errorf("%+v %q", s.PCR, notes)
	}
	if got, err := os.ReadFile(filepath.Join(dst, "PCR_9.pcr")); err != nil || string(got) != string(record) {
		t.Errorf("the other's record: %v", err)
	}
}

// What stood in the folder of an empty class stays, and so does a file of its name.
func TestRemoveEmptyFolder(t *testing.T) {
	dst := t.TempDir()
	target, err := openTarget(dst)
	if err != nil {
		t.Fatal(err)
	}
	writeTree(t, dst, map[string][]byte{"empty/": nil, "full/mine": nil, "file": []byte("mine")})
	for name, ok := range map[string]bool{"empty": true, "full": false, "file": false, "none": false} {
		if err := target.removeEmptyFolder(name); (err == nil) != ok || name == "none" && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := target.close(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"file", "full/mine"}, names(t, dst)); diff != "" {
		t.Errorf("left:\n%s", diff)
	}
}

// The marker says after a run how it ended, and the next run believes it.
func TestMarkerOfRunsThatDidNotEnd(t *testing.T) {
	for _, c := range []struct {
		name      string
		before    string // of the marker, "" for none
		touched   bool
		unclean   bool
		then      string // of the marker after abandoning, "" for none
		unfinBeg  bool
		nextClean bool
	}{
		{"new and untouched", "", false, false, "", false, true},
		{"new", "", true, false, interruptedText, false, true},
		{"interrupted", interruptedText, true, false, interruptedText, true, true},
		{"interrupted and untouched", interruptedText, false, false, interruptedText, true, true},
		{"killed", markerText, true, true, markerText, true, false},
		{"killed and untouched", markerText, false, true, markerText, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			dst := t.TempDir()
			if c.before != "" {
				writeTree(t, dst, map[string][]byte{Marker: []byte(c.before)})
			}
			target, err := openTarget(dst)
			if err != nil {
				t.Fatal(err)
			}
			if target.unfinished != c.unfinBeg || target.unclean != c.unclean {
				t.Errorf("unfinished %v, unclean %v", target.unfinished, target.unclean)
			}
			if text, err := os.ReadFile(filepath.Join(dst, Marker)); err != nil || string(text) != markerText {
				t.Errorf("while the run goes on the marker says %q, %v", text, err)
			}
			if err := target.abandon(c.touched); err != nil {
				t.Fatal(err)
			}
			if text, _ := os.ReadFile(filepath.Join(dst, Marker)); string(text) != c.then {
				t.Errorf("then the marker says %q", text)
			}
		})
	}
}

// A run that is refused leaves what a former one said.
func TestRefusedRunLeavesTheMarker(t *testing.T) {
	src, dst := pcrTree(t, 3), filepath.Join(t.TempDir(), "dst")
	interruptPCR(t, src, dst, PCROptions{ImagesPerRecord: 2}, 5)
	if _, err := PackPCR(context.Background(), pcrTree(t, 2), dst, PCROptions{}); !errors.Is(err, ErrDestination) {
		t.Errorf("a run with another source: %v", err)
	}
	if text, _ := os.ReadFile(filepath.Join(dst, Marker)); string(text) != interruptedText {
		t.Errorf("the marker says %q", text)
	}
}

// A class that has images now has no empty folder any more.
func TestEmptyClassFillsUp(t *testing.T) {
	src, dst := pcrTree(t, 2), filepath.Join(t.TempDir(), "dst")
	writeTree(t, src, map[string][]byte{"q/": nil})
	mustPackPCR(t, src, dst, PCROptions{})
	if _, err := os.Lstat(filepath.Join(dst, "q")); err != nil {
		t.Error(err)
	}
	writeTree(t, src, map[string][]byte{"q/1.jpg": jpegBytes(t, 3)})
	mustPackPCR(t, src, dst, PCROptions{})
	if _, err := os.Lstat(filepath.Join(dst, "q")); err == nil {
		t.Error("the empty folder is there still")
	}
	writeTree(t, dst, map[string][]byte{"old/": nil})
	s := mustPackPCR(t, src, dst, PCROptions{})
	if notes := strings.Join(s.Notes, "\n"); !strings.Contains(notes, "no classes of the source, and ImageFolder would count them: old") {
		t.Errorf("notes %q", notes)
	}
}

// A record ends before it becomes too large, and stays so.
func TestPackPCREndsLargeRecords(t *testing.T) {
	src, dst := pcrTree(t, 4), filepath.Join(t.TempDir(), "dst")
	opt := PCROptions{recordBytes: 3 * int64(len(progressiveJPEG(t, 3)))}
	s := mustPackPCR(t, src, dst, opt)
	if s.PCR.Records < 4 || s.PCR.Records > 6 || s.Converted.Files != 12 {
		t.Errorf("%v %+v", s, s.PCR)
	}
	if again := mustPackPCR(t, src, dst, opt); again.PCR.RecordsKept != s.PCR.Records || again.Replaced != 0 {
		t.Errorf("packed again: %v %+v", again, again.PCR)
	}
	sameAsFresh(t, src, dst, opt)
	// An image larger than that has a record to itself.
	opt.recordBytes = 1
	if s := mustPackPCR(t, src, filepath.Join(t.TempDir(), "one"), opt); s.PCR.Records != 12 {
		t.Errorf("%+v", s.PCR)
	}
}

func TestPackPCROptionsOutOfRange(t *testing.T) {
	for _, opt := range []PCROptions{{Quality: 101}, {ImagesPerRecord: MaxImagesPerRecord + 1}} {
		dst := filepath.Join(t.TempDir(), "dst")
		if _, err := PackPCR(context.Background(), pcrTree(t, 1), dst, opt); err == nil || errors.Is(err, ErrSource) {
			t.Errorf("%+v: %v", opt, err)
		}
		if _, err := os.Lstat(dst); err == nil {
			t.Error("the destination was made")
		}
	}
}

// Results are taken in order, whatever the order in which they come.
func TestInOrderTakesInOrder(t *testing.T) {
	for _, jobs := range []int{1, 3, 20} {
		var got []int
		newJob := func() (func(int) int, func(), error) {
			return func(at int) int {
				time.Sleep(time.Duration(at*7%5) * time.Millisecond / 4)
				return at * at
			}, func() {}, nil
		}
		err := inOrder(context.Background(), jobs, 3, 40, newJob, func(at, result int) bool {
			if result != at*at {
				t.Errorf("%d gives %d", at, result)
			}
			got = append(got, at)
			return at < 30
		})
		if err != nil || len(got) != 28 || got[0] != 3 || got[27] != 30 {
			t.Errorf("%d jobs: %v, %v", jobs, got, err)
		}
	}
}

func TestInOrderErrors(t *testing.T) {
	fails := errors.New("no job")
	noJob := func() (func(int) int, func(), error) { return nil, nil, fails }
	if err := inOrder(context.Background(), 2, 0, 5, noJob, func(int, int) bool { return true }); !errors.Is(err, fails) {
		t.Errorf("error %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	taken := 0
	job := func() (func(int) int, func(), error) { return func(at int) int { return at }, func() {}, nil }
	err := inOrder(ctx, 2, 0, 1000, job, func(int, int) bool {
		if taken++; taken == 3 {
			cancel()
		}
		return true
	})
	if !errors.Is(err, context.Canceled) || taken > 20 {
		t.Errorf("%d taken, error %v", taken, err)
	}
}
