package integration

import (
	"os"
	"path/filepath"
	"testing"

	"prismfs/internal/testfiles"
	"prismfs/order"
)

// planImages makes and packs images of 18 KB in class folders.
func planImages(t *testing.T, count, classes int) (source, packed string) {
	t.Helper()
	folder := scratch(t)
	t.Cleanup(func() { os.RemoveAll(folder) })
	source, packed = filepath.Join(folder, "source"), filepath.Join(folder, "packed")
	check(t, "plan_images", args{"folder": source, "count": count, "classes": classes, "height": 64, "width": 96})
	if out, err := prismfs("pack", "--to", "l3", "--mode", "fast", source, packed); err != nil {
		t.Fatalf("packing: %v\n%s", err, out)
	}
	return source, packed
}

// planStats is what the tests of plans look at of .prismfs/stats.
type planStats struct {
	Served      uint64 `json:"served"`
	Decoded     uint64 `json:"decoded"`
	Errors      uint64 `json:"errors"`
	Hits        uint64 `json:"cache_hits"`
	Misses      uint64 `json:"cache_misses"`
	Evictions   uint64 `json:"cache_evictions"`
	PlanMade    uint64 `json:"plan_made"`
	PlanUseful  uint64 `json:"plan_useful"`
	PlanWasted  uint64 `json:"plan_wasted"`
	PlanFailed  uint64 `json:"plan_failed"`
	AheadMade   uint64 `json:"read_ahead_made"`
	AheadUseful uint64 `json:"read_ahead_useful"`
	Device      struct {
		Batches   uint64            `json:"batches"`
		Images    uint64            `json:"images"`
		Largest   uint64            `json:"largest_batch_images"`
		Full      uint64            `json:"full_batch_images"`
		Fallbacks map[string]uint64 `json:"fallbacks"`
	} `json:"device"`
}

// TestPlannedBatches has sixteen processes read in a planned random order, cold,
// what does not fit into the cache: the batches of a device are at least half full
// on average, and nothing is decoded twice.
func TestPlannedBatches(t *testing.T) {
	const images = 600
	env := simulated(t, "memory=12582912;kernel=2000") // in which some 33 of these are a batch
	source, packed := planImages(t, images, 8)
	mt := mountWith(t, packed, best, env, "--backend", "cuda", "--cache", "10MiB")
	var s planStats
	checkInto(t, &s, "planned_readers", args{
		"mount": mt.dir, "source": source, "binary": binary, "workers": 16, "batch": 8, "planned": true,
	})
	if s.Served != images || s.Decoded != images || s.Device.Images != images || s.Errors != 0 || s.Evictions == 0 {
		t.Errorf("not every image was decoded once: %+v", s)
	}
	if s.Hits+s.Misses != images || s.PlanUseful != s.PlanMade || s.PlanMade < images*8/10 || s.PlanFailed != 0 {
		t.Errorf("the plan did not serve its readers: %+v", s)
	}
	mean := float64(s.Device.Images) / float64(s.Device.Batches)
	t.Logf("%.1f images a batch, %d are full", mean, s.Device.Full)
	if s.Device.Full < 20 || 2*mean < float64(s.Device.Full) {
		t.Errorf("%.1f images a batch, of which %d are full", mean, s.Device.Full)
	}
}

// TestPlans: readers who leave plans, and what comes to the socket beside plans.
func TestPlans(t *testing.T) {
	const (
		images = 400
		// bound is what requests may make the daemon take; gigabytes are sent.
		bound = 96 << 20
		// lines are those of ImageNet, and lineBytes what each may cost, with what the
		// garbage collector leaves: 8.25 bytes are kept.
		lines, lineBytes = 1_300_000, 30
	)
	source, packed := planImages(t, images, 8)
	mt := mount(t, packed, best)
	a := args{"mount": mt.dir, "source": source, "binary": binary}
	var s planStats
	checkInto(t, &s, "plan_again", a)
	if s.Decoded > images || s.PlanMade == 0 || s.PlanUseful+s.PlanWasted != s.PlanMade {
		t.Errorf("%+v", s)
	}
	a["example"] = filepath.Join(testfiles.Root(), "examples", "planned_imagefolder.py")
	var did struct {
		Made    uint64 `json:"plan_made"`
		Useful  uint64 `json:"plan_useful"`
		Decoded uint64 `json:"decoded"`
	}
	checkInto(t, &did, "plan_example", a)
	if did.Decoded != images || did.Made < images/2 || did.Useful != did.Made {
		t.Errorf("the example: %+v", did)
	}
	delete(a, "example")
	a["pid"] = mt.pid
	check(t, "plan_rubbish", args{"mount": mt.dir, "source": source, "binary": binary, "pid": mt.pid, "bound": bound})
	var cost struct {
		Bytes float64 `json:"bytes_a_line"`
	}
	a["lines"] = lines
	checkInto(t, &cost, "plan_of_many_lines", a)
	if cost.Bytes > lineBytes {
		t.Errorf("a line takes %.1f bytes", cost.Bytes)
	}
}

// TestPlanOfEchoes: a plan of an echo view has no image decoded that its readers do
// not get.
func TestPlanOfEchoes(t *testing.T) {
	const images = 400
	source, packed := planImages(t, images, 4)
	mt := mount(t, packed, best)
	var epochs []struct {
		Decoded float64 `json:"decoded"`
		Made    float64 `json:"plan_made"`
	}
	checkInto(t, &epochs, "plan_of_echoes", args{"mount": mt.dir, "source": source, "binary": binary, "epochs": 2}) // in the third, the cache has all
	sum := 0.0
	for i, did := range epochs {
		sum += did.Decoded
		if did.Decoded < 0.4*images || did.Decoded > 0.6*images || did.Made < 0.5*did.Decoded {
			t.Errorf("epoch %d: %+v", i, did)
		}
	}
	if share := sum / images / 2; share < 0.49 || share > 0.51 {
		t.Errorf("%.3f decodes a read", share)
	}
}

// TestReadAhead: a reader in the order of a folder finds most images decoded;
// hardly any are decoded for one in no order, and few for one that leaves.
func TestReadAhead(t *testing.T) {
	const folder = 150 // images
	source, packed := planImages(t, 3*folder, 3)
	mt := mount(t, packed, "read-ahead")
	var did map[string]struct {
		Served  uint64 `json:"served"`
		Misses  uint64 `json:"cache_misses"`
		Made    uint64 `json:"read_ahead_made"`
		Useful  uint64 `json:"read_ahead_useful"`
		Decoded uint64 `json:"decoded"`
	}
	checkInto(t, &did, "read_ahead", args{"mount": mt.dir, "source": source})
	if d := did["in_order"]; d.Served != folder || d.Useful == 0 || d.Misses > folder/5 || d.Decoded != folder {
		t.Errorf("in order: %+v", d)
	}
	if d := did["shuffled"]; d.Served != folder || d.Made > folder/5 || d.Decoded != folder {
		t.Errorf("shuffled: %+v", d)
	}
	if d := did["leaves"]; d.Made == 0 || d.Made > d.Useful+order.DefaultImages {
		t.Errorf("in order, to the middle: %+v", d)
	}
}
