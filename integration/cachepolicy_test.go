package integration

import (
	"fmt"
	"image"
	"image/color"
	"image/png"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

const (
	// policyImages of policyEdge pixels take twice the cache: as .npy they are
	// 27,776 bytes, which are charged as 7 pages and 1 KiB.
	policyImages, policyEdge = 140, 96
	policyCache              = policyImages * (7*4096 + 1024) / 2
)

var policyPacked string // by the first test that needs it

// policyDataset packs noise, and names what a mount shows of it.
func policyDataset(t *testing.T) (packed string, names []string) {
	t.Helper()
	for i := range policyImages {
		names = append(names, fmt.Sprintf("train/%03d.npy", i))
	}
	if policyPacked == "" {
		policyPacked = packNoise(t)
	}
	return policyPacked, names
}

func packNoise(t *testing.T) string {
	t.Helper()
	source, packed := filepath.Join(scratch(t), "source"), filepath.Join(scratch(t), "packed")
	if err := os.MkdirAll(filepath.Join(source, "train"), 0o755); err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(7, 7))
	for i := range policyImages {
		m := image.NewRGBA(image.Rect(0, 0, policyEdge, policyEdge))
		for y := range policyEdge {
			for x := range policyEdge {
				m.Set(x, y, color.RGBA{uint8(x + r.IntN(16)), uint8(y + r.IntN(16)), uint8(i), 255})
			}
		}
		f, err := os.Create(filepath.Join(source, "train", fmt.Sprintf("%03d.png", i)))
		if err != nil {
			t.Fatal(err)
		}
		if err := png.Encode(f, m); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := prismfs("pack", "--to", "l3", source, packed); err != nil {
		t.Fatalf("pack: %v\n%s", err, out)
	}
	return packed
}

func mean(list []float64) float64 {
	sum := 0.0
	for _, v := range list {
		sum += v
	}
	return sum / float64(len(list))
}

// TestCachePolicy reads a dataset of twice the cache, in another order in each
// epoch: LRU finds 15 % of it there (see package cache), pin what has a place,
// which is 7/16 of it, in every single epoch.
func TestCachePolicy(t *testing.T) {
	packed, names := policyDataset(t)
	hits := map[string][]float64{}
	for _, policy := range []string{"lru", "pin"} {
		mt := mount(t, packed, best, "--cache", fmt.Sprint(policyCache), "--cache-policy", policy, "--read-ahead", "off")
		var shares []float64
		checkInto(t, &shares, "shuffled_epochs", args{"mount": mt.dir, "names": names, "epochs": 5, "seed": 1})
		t.Logf("%s: hits in each epoch %.3f", policy, shares)
		hits[policy] = shares
	}
	const places = 7.0 / 16
	if least := slices.Min(hits["pin"]); least < places-0.03 {
		t.Errorf("an epoch found %.3f of the files with policy pin, places are for %.3f", least, places)
	}
	if most := mean(hits["pin"]); most > 0.5+0.02 {
		t.Errorf("policy pin found %.3f of the files, more than fit", most)
	}
	if lru := mean(hits["lru"]); lru > 0.25 || lru < 0.05 {
		t.Errorf("LRU found %.3f of the files, want about 0.15", lru)
	}
}

// TestCachePolicyFollowsPlans: what is made ahead of readers is there when they
// come, beside what is kept.
func TestCachePolicyFollowsPlans(t *testing.T) {
	packed, names := policyDataset(t)
	mt := mount(t, packed, best, "--cache", fmt.Sprint(policyCache), "--cache-policy", "pin", "--read-ahead", "off")
	var epochs []struct {
		Decoded int
		Misses  int `json:"cache_misses"`
		Made    int `json:"plan_made"`
		Useful  int `json:"plan_useful"`
	}
	checkInto(t, &epochs, "planned_epochs", args{"binary": binary, "mount": mt.dir, "names": names, "epochs": 3, "seed": 1})
	for i, e := range epochs {
		// Nothing is decoded twice, and what has a place not at all.
		if e.Decoded > policyImages*(16-7)/16+policyImages/20 || e.Made < policyImages/4 || e.Useful < e.Made*9/10 {
			t.Errorf("epoch %d: %+v", i+1, e)
		}
	}
}

// TestWarmupOfSmallCaches: warmup tells what the cache holds of more than fits.
func TestWarmupOfSmallCaches(t *testing.T) {
	packed, names := policyDataset(t)
	for _, policy := range []string{"lru", "pin"} {
		mt := mount(t, packed, best, "--cache", fmt.Sprint(policyCache), "--cache-policy", policy, "--read-ahead", "off")
		var got struct {
			Told struct {
				Samples, Held, Failed, Bytes int64
				Decoded                      int64
				Evictions                    int64 `json:"cache_evictions"`
				Budget                       int64 `json:"cache_budget_bytes"`
			}
			Share float64
		}
		checkInto(t, &got, "warmup", args{"binary": binary, "mount": mt.dir, "names": names})
		w := got.Told
		if w.Samples != policyImages || w.Decoded != policyImages || w.Failed != 0 || w.Held < policyImages/3 || w.Held >= policyImages*6/10 ||
			w.Evictions != policyImages-w.Held || w.Bytes < w.Budget {
			t.Errorf("%s: %+v", policy, w)
		}
		if policy == "pin" && got.Share < 7.0/16-0.03 {
			t.Errorf("after warming up with policy pin a pass finds %.3f", got.Share)
		}
	}
}
