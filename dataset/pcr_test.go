package dataset

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"prismfs/internal/testfiles"
)

// fixture is what expected.json says of a reference dataset.
type fixture struct {
	dir     string
	Records []struct {
		Name   string
		Levels int `json:"progressive_levels"`
		Images []struct {
			Label         int
			Width, Height int
			Mode          string
			Scans         int   `json:"n_scans"`
			ScanBytes     []int `json:"scan_bytes"`
			Levels        []struct {
				K      int
				Bytes  int    `json:"jpeg_len"`
				SHA256 string `json:"jpeg_sha256"`
			}
		}
	}
}

var fixtureNames = []string{"pb", "edge-pb", "edge-raw", "edge-rawsql", "edge-sqlite"}

func readFixture(t testing.TB, name string) *fixture {
	t.Helper()
	f := &fixture{dir: testfiles.Shared(t, "fixtures/pcr/"+name)}
	text, err := os.ReadFile(f.dir + "/expected.json")
	must(t, err)
	must(t, json.Unmarshal(text, f))
	return f
}

// openPCR opens a folder with tables in a folder of their own.
func openPCR(t testing.TB, dir string, opt Options) (*Dataset, *hookStore) {
	t.Helper()
	if opt.TableDir == "" {
		opt.TableDir = t.TempDir()
	}
	d, store := openDataset(t, dir, opt)
	d.recheck = 0
	return d, store
}

// imagePath is where an image without a name is shown.
func imagePath(label int, record string, index int) string {
	return fmt.Sprintf("%d/%s-%05d.pcr", label, strings.TrimSuffix(record, ".pcr"), index)
}

// samplePaths lists the samples below a folder of the dataset.
func samplePaths(t testing.TB, d *Dataset, dir string) []string {
	t.Helper()
	var paths []string
	must(t, d.ReadDir(context.Background(), dir, func(e DirEntry) bool {
		switch at := join(dir, e.Name); {
		case e.Kind == Dir:
			paths = append(paths, samplePaths(t, d, at)...)
		case IsSample(at):
			paths = append(paths, at)
		}
		return true
	}))
	return paths
}

// Every image of every reference file, at every fidelity.
func TestPublishedRecords(t *testing.T) {
	for _, name := range fixtureNames {
		for _, remote := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/remote=%v", name, remote), func(t *testing.T) {
				f := readFixture(t, name)
				d, _ := openPCR(t, f.dir, Options{KeepDuplicates: true, RemoteReads: remote})
				ctx := context.Background()
				var want []string
				var buf []byte
				for _, r := range f.Records {
					for i, img := range r.Images {
						path := imagePath(img.Label, r.Name, i)
						want = append(want, path)
						s, err := d.Sample(ctx, path)
						must(t, err)
						channels := 3
						if img.Mode == "L" {
							channels = 1
						}
						if s.Shape.Width != img.Width || s.Shape.Height != img.Height || s.Shape.Channels != channels ||
							*s.Label != img.Label || s.Levels != r.Levels || s.Format != PCR || s.Source != r.Name {
							t.Errorf("%s: %+v, want %+v", path, s, img)
						}
						for _, l := range img.Levels {
							size, err := d.EncodedBytes(ctx, s, l.K)
							must(t, err)
							buf, err = d.ReadEncoded(ctx, s, l.K, buf)
							must(t, err)
							if sum := sha256.Sum256(buf); hex.EncodeToString(sum[:]) != l.SHA256 || len(buf) != l.Bytes || size != int64(l.Bytes) {
								t.Errorf("%s at %d: %d bytes, said to be %d, want %d", path, l.K, len(buf), size, l.Bytes)
							}
						}
						again, err := d.Sample(ctx, path)
						must(t, err)
						if full := img.Levels[len(img.Levels)-1].Bytes; again.Info.Size != int64(full) {
							t.Errorf("%s has %d bytes, want %d", path, again.Info.Size, full)
						}
					}
				}
				got := samplePaths(t, d, "")
				slices.Sort(got)
				slices.Sort(want)
				if !slices.Equal(got, want) {
					t.Errorf("%d images are listed, want %d", len(got), len(want))
				}
			})
		}
	}
}
