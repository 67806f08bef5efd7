package dataset

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"prismfs/pcr"
)

// A million images in a thousand records. It is slow, so it runs when
// envMillion is set: to 1, or to a folder where the records are kept between
// runs.
const (
	envMillion      = "PRISMFS_TEST_MILLION"
	envMillionChild = "PRISMFS_TEST_MILLION_CHILD" // in a process of its own: source, tables, what to do

	millionRecords = 1000
	millionEach    = 1000
	millionScans   = 10

	mostMountTime = 2 * time.Second
	mostMountKB   = 300 << 10
)

// makeMillion writes the records: of 1000 classes, each a record of small images,
// with names or without.
func makeMillion(t *testing.T, dir string, names bool) {
	if _, err := os.Stat(dir + "/" + pcr.IndexNamePB); err == nil {
		return
	}
	must(t, os.MkdirAll(dir, 0o755))
	scans := make([]int, millionScans)
	for i := range scans {
		scans[i] = 6 + i
	}
	images := make([]pcr.Image, millionEach)
	for i := range images {
		images[i] = pcr.Image{JPEG: fakeJPEG(100+i%7, 90+i%5, 3, uint64(i), scans...), Width: 100 + i%7, Height: 90 + i%5, Components: 3}
	}
	m := &maker{dir: dir, info: pcr.RecordInfo{Bare: !names}}
	for r := range millionRecords {
		for i := range images {
			images[i].Label = int32(r)
			if names {
				images[i].Class, images[i].Name = fmt.Sprintf("n%08d", r*7), fmt.Sprintf("n%08d_%06d.JPEG", r*7, i)
			}
		}
		m.add(t, fmt.Sprintf("PCR_%d.pcr", r), images...)
	}
	m.finish(t)
}

func TestMillionImages(t *testing.T) {
	keep := os.Getenv(envMillion)
	if keep == "" {
		t.Skipf("takes a minute and 2 GB of disk; set %s=1", envMillion)
	}
	if keep == "1" {
		keep = t.TempDir()
	}
	for _, kind := range []string{"bare", "named"} {
		dir := keep + "/" + kind
		makeMillion(t, dir, kind == "named")
		tables := t.TempDir()
		for _, what := range []string{"tree", "tables", "mount", "list", "stat"} {
			out := millionChild(t, dir, tables, what)
			var took time.Duration
			var peakKB, index int
			if _, err := fmt.Sscanf(out, "%d %d %d", &took, &peakKB, &index); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			t.Logf("%s: %-6s %8.3f s, %4d MB at most, %d bytes for the index", kind, what, took.Seconds(), peakKB>>10, index)
			if what == "mount" && (took > mostMountTime || peakKB > mostMountKB || index != 0) {
				t.Errorf("%s: a mount with tables takes %v and %d KB", kind, took, peakKB)
			}
		}
	}
}

func millionChild(t *testing.T, dir, tables, what string) string {
	cmd := exec.Command(os.Args[0], "-test.run=^TestMillionChild$", "-test.v")
	cmd.Env = append(os.Environ(), envMillionChild+"="+strings.Join([]string{dir, tables, what}, "\n"))
	out, err := cmd.CombinedOutput()
	must(t, err)
	_, line, _ := strings.Cut(string(out), "result ")
	return line
}

// TestMillionChild does one thing in a process of its own, whose memory can be
// measured.
func TestMillionChild(t *testing.T) {
	dir, rest, ok := strings.Cut(os.Getenv(envMillionChild), "\n")
	if !ok {
		t.Skip("is run by TestMillionImages")
	}
	tables, what, _ := strings.Cut(rest, "\n")
	start := time.Now()
	d := Open(openLocal(t, dir), Options{TableDir: tables})
	ctx := context.Background()
	images := 0
	switch what {
	case "tree", "mount":
		if n := len(listed(t, d, "")); n != millionRecords {
			t.Errorf("%d classes", n)
		}
	case "tables":
		must(t, d.BuildTables(ctx, "", nil))
	case "list", "stat":
		must(t, d.ReadDir(ctx, "", func(class DirEntry) bool {
			must(t, d.ReadDir(ctx, class.Name, func(e DirEntry) bool {
				images++
				if what == "stat" {
					if s, err := d.Sample(ctx, join(class.Name, e.Name)); err != nil || s.Shape.Channels != 3 {
						t.Fatal(err)
					}
				}
				return true
			}))
			return true
		}))
		if images != millionRecords*millionEach {
			t.Errorf("%d images", images)
		}
	}
	took := time.Since(start)
	status, err := os.ReadFile("/proc/self/status")
	must(t, err)
	_, peak, _ := strings.Cut(string(status), "VmHWM:")
	var peakKB int
	fmt.Sscan(peak, &peakKB)
	fmt.Printf("result %d %d %d\n", took, peakKB, d.Stats().StoreBytesIndex)
}
