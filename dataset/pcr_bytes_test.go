package dataset

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
)

// The bytes that things may cost. Each test runs on a folder that is made here
// and, where it is there, on the reference one.

// byteFolders calls f for each folder: bare records, some with names, one of a
// record only, and the reference dataset.
func byteFolders(t *testing.T, f func(t *testing.T, dir string)) {
	made := t.TempDir()
	for _, name := range []string{"bare", "named", "single"} {
		must(t, os.Mkdir(made+"/"+name, 0o755))
	}
	bareFolder(t, made+"/bare", 7, 30, 5)
	(&maker{dir: made + "/named"}).fill(t, 4, 40, 3)
	bareFolder(t, made+"/single", 1, 60, 1)
	for _, name := range []string{"bare", "named", "single"} {
		t.Run(name, func(t *testing.T) { f(t, made+"/"+name) })
	}
	t.Run("reference", func(t *testing.T) { f(t, readFixture(t, "pb").dir) })
}

// readEach reads samples one after another.
func readEach(t testing.TB, d *Dataset, paths []string, k int) {
	t.Helper()
	var buf []byte
	for _, path := range paths {
		s, err := d.Sample(context.Background(), path)
		must(t, err)
		buf, err = d.ReadEncoded(context.Background(), s, k, buf)
		must(t, err)
	}
}

// byRecord orders samples as they lie in the records.
func byRecord(paths []string, d *Dataset, t testing.TB) []string {
	place := map[string]uint64{}
	for _, path := range paths {
		s, err := d.Sample(context.Background(), path)
		must(t, err)
		place[path] = uint64(s.record.First) + uint64(s.index)
	}
	return slices.SortedFunc(slices.Values(paths), func(a, b string) int { return int(place[a]) - int(place[b]) })
}

func TestBytesWithTables(t *testing.T) {
	byteFolders(t, func(t *testing.T, dir string) {
		tables := t.TempDir()
		first, _ := openPCR(t, dir, Options{TableDir: tables})
		calls := 0
		must(t, first.BuildTables(context.Background(), "", func(done, total int) {
			if calls++; done != calls || done > total {
				t.Errorf("progress %d of %d at call %d", done, total, calls)
			}
		}))
		if s := summary(t, first, ""); s.TableFull != 1 || s.Records != calls {
			t.Errorf("the tables are not full, or %d records were done: %+v", calls, s)
		}
		paths := samplePaths(t, first, "")
		levels := summary(t, first, "").Levels
		fidelities := slices.Compact([]int{1, 2, levels})
		for _, k := range fidelities {
			d, _ := openPCR(t, dir, Options{TableDir: tables})
			random := slices.Clone(samplePaths(t, d, ""))
			rand.New(rand.NewPCG(uint64(k), 5)).Shuffle(len(random), func(i, j int) { random[i], random[j] = random[j], random[i] })
			readEach(t, d, random, k)
			for _, path := range random {
				s, err := d.Sample(context.Background(), path)
				must(t, err)
				_, err = d.EncodedBytes(context.Background(), s, k)
				must(t, err)
				if s.Info.Size == 0 {
					t.Errorf("the size of %s is not known", path)
				}
			}
			stats := d.Stats()
			if stats.StoreBytesRead != stats.StoreBytesNeeded || stats.StoreBytesNeeded == 0 || stats.StoreBytesIndex != 0 {
				t.Errorf("in random order at %d: %+v", k, stats)
			}
		}
		for name, order := range map[string][]string{"as listed": paths, "as in the records": byRecord(paths, first, t)} {
			for _, k := range fidelities {
				d, _ := openPCR(t, dir, Options{TableDir: tables})
				readEach(t, d, order, k)
				stats := d.Stats()
				if float64(stats.StoreBytesRead) > 1.05*float64(stats.StoreBytesNeeded) || stats.StoreBytesNeeded == 0 || stats.StoreBytesIndex != 0 {
					t.Errorf("%s at %d: %+v", name, k, stats)
				}
				if k == levels {
					t.Logf("%s at %d: %.4f of what is needed", name, k, float64(stats.StoreBytesRead)/float64(stats.StoreBytesNeeded))
				}
			}
		}
	})
}

func TestBytesWithoutTables(t *testing.T) {
	byteFolders(t, func(t *testing.T, dir string) {
		for _, k := range []int{1, 4} {
			tables := t.TempDir()
			d, _ := openPCR(t, dir, Options{TableDir: tables})
			paths := samplePaths(t, d, "")
			readEach(t, d, paths, k)
			stats := d.Stats()
			entries, shapes := uint64(len(paths)*k), uint64(len(paths))
			if most := 16*entries + 512*shapes; stats.StoreBytesIndex > most || stats.StoreBytesIndex == 0 {
				t.Errorf("at %d: %d bytes for the index, more than %d", k, stats.StoreBytesIndex, most)
			}
			if float64(stats.StoreBytesRead) > 1.05*float64(stats.StoreBytesNeeded) {
				t.Errorf("at %d: %+v", k, stats)
			}
			t.Logf("at %d: index %d bytes of %d allowed", k, stats.StoreBytesIndex, 16*entries+512*shapes)
			// What has been found out is known to the next one, and no more is read.
			next, _ := openPCR(t, dir, Options{TableDir: tables})
			readEach(t, next, samplePaths(t, next, ""), k)
			if s := next.Stats(); s.StoreBytesIndex != 0 || s.StoreBytesNeeded != stats.StoreBytesNeeded {
				t.Errorf("the second at %d: %+v after %+v", k, s, stats)
			}
		}
	})
}

// Images that are read one after another come with few reads.
func TestRequestsInOrder(t *testing.T) {
	dir := t.TempDir()
	const records, each = 6, 50
	bareFolder(t, dir, records, each, 1)
	tables := t.TempDir()
	first, _ := openPCR(t, dir, Options{TableDir: tables})
	must(t, first.BuildTables(context.Background(), "", nil))
	d, store := openPCR(t, dir, Options{TableDir: tables})
	paths := samplePaths(t, d, "")
	reads := 0
	store.onRead = func([]byte, int64) (int, error, bool) { reads++; return 0, nil, false }
	readEach(t, d, paths[:each*(records-1)], 3)
	reads = 0
	readEach(t, d, paths[each*(records-1):], 3)
	if reads != 1 {
		t.Errorf("%d reads for a whole record after many", reads)
	}
	// Gaps of up to MaxGap bytes are read with what they lie between.
	for gap, want := range map[int64]int{-1: 3, 0: 3, 1 << 20: 1} {
		d, store := openPCR(t, dir, Options{TableDir: tables, MaxGap: gap})
		reads := 0
		store.onRead = func([]byte, int64) (int, error, bool) { reads++; return 0, nil, false }
		readEach(t, d, paths[7:8], 3)
		stats := d.Stats()
		if reads != want || (stats.StoreBytesRead == stats.StoreBytesNeeded) != (want == 3) {
			t.Errorf("%d reads with gaps of %d, %+v", reads, gap, stats)
		}
	}
}

// Threads that share a folder in order, and overtake each other, get what is
// theirs.
func TestReadersInOrderTogether(t *testing.T) {
	dir := t.TempDir()
	m := bareFolder(t, dir, 5, 40, 1)
	d, _ := openPCR(t, dir, Options{})
	paths := samplePaths(t, d, "")
	want := map[string]string{}
	for _, path := range paths {
		for _, k := range []int{1, 2, 4} {
			fresh, _ := openPCR(t, dir, Options{TableDir: NoTables})
			want[fmt.Sprint(path, k)] = string(readAt(t, fresh, path, k))
		}
		if len(want) > 3*20 {
			break // the others are compared by their length
		}
	}
	var wg sync.WaitGroup
	queue := make(chan int)
	for range 4 {
		wg.Go(func() {
			for i := range queue {
				k := []int{1, 2, 4}[i/70%3]
				s, err := d.Sample(context.Background(), paths[i%len(paths)])
				if err != nil {
					t.Error(err)
					continue
				}
				got, err := d.ReadEncoded(context.Background(), s, k, nil)
				size, sizeErr := d.EncodedBytes(context.Background(), s, k)
				expected, ok := want[fmt.Sprint(s.Path, k)]
				if err != nil || sizeErr != nil || int64(len(got)) != size || ok && string(got) != expected {
					t.Errorf("%s at %d: %d bytes, said to be %d, %v, %v", s.Path, k, len(got), size, err, sizeErr)
				}
			}
		})
	}
	for i := range 3 * len(paths) {
		queue <- i
	}
	close(queue)
	wg.Wait()
	if d.runs.bytes > maxRunBytes || len(m.entries) != 5 {
		t.Errorf("%d bytes are kept", d.runs.bytes)
	}
}

// A window that cannot be read costs those nothing who can read by themselves,
// and a fault comes to whom it happens.
func TestFaultsInOrder(t *testing.T) {
	dir := t.TempDir()
	bareFolder(t, dir, 2, 60, 1)
	d, store := openPCR(t, dir, Options{})
	must(t, d.BuildTables(context.Background(), "", nil))
	paths := samplePaths(t, d, "")
	large := 0
	store.onRead = func(p []byte, off int64) (int, error, bool) {
		if len(p) > 4096 {
			large++
			return 0, os.ErrDeadlineExceeded, true
		}
		return 0, nil, false
	}
	readEach(t, d, paths, 2)
	if large == 0 {
		t.Error("nothing was read ahead")
	}
	if d.runs.bytes != 0 || len(d.runs.windows) != 0 {
		t.Errorf("%d bytes of windows are kept that could not be read", d.runs.bytes)
	}
}

func BenchmarkPCR(b *testing.B) {
	dir := b.TempDir()
	bareFolder(b, dir, 4, 256, 1)
	d, _ := openDataset(b, dir, Options{TableDir: b.TempDir()})
	ctx := context.Background()
	must(b, d.BuildTables(ctx, "", nil))
	paths := samplePaths(b, d, "")
	b.Run("sample", func(b *testing.B) {
		b.ReportAllocs()
		i := 0
		for b.Loop() {
			if _, err := d.Sample(ctx, paths[i*37%len(paths)]); err != nil {
				b.Fatal(err)
			}
			i++
		}
	})
	for name, step := range map[string]int{"random": 37, "in order": 1} {
		b.Run(name, func(b *testing.B) {
			var samples []*Sample
			for _, path := range paths {
				s, err := d.Sample(ctx, path)
				must(b, err)
				samples = append(samples, s)
			}
			var buf []byte
			var err error
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				if buf, err = d.ReadEncoded(ctx, samples[i*step%len(samples)], 0, buf); err != nil {
					b.Fatal(err)
				}
				i++
			}
		})
	}
}
