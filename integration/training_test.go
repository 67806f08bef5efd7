package integration

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"prismfs/internal/testfiles"
)

// batchImages is what benchmarks/training_reader.py takes for a step.
const batchImages = 32

// TestTrainingExperiment runs benchmarks/training in small: what must hold whatever
// accuracy comes out is that each label is right, that each image is served, and that
// fresh samples are counted as they are.
func TestTrainingExperiment(t *testing.T) {
	file := filepath.Join(scratch(t), "figures.json")
	cmd := exec.Command(python(), "-B", filepath.Join(testfiles.Root(), "benchmarks", "training"),
		"--quick", "--prismfs", binary, "--json", file)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("benchmarks/training --quick: %v\n%s", err, out)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var figures struct {
		Settings struct {
			Fresh int `json:"fresh"`
		} `json:"settings"`
		Checks []struct {
			View   string   `json:"view"`
			Reads  int      `json:"reads"`
			Fresh  int      `json:"fresh"`
			Images int      `json:"images"`
			Served int      `json:"served"`
			Wrong  []string `json:"wrong"`
		} `json:"checks"`
		Runs []struct {
			Kind   string `json:"kind"`
			Factor int    `json:"factor"`
			Curve  []struct {
				Fresh int `json:"fresh"`
				Reads int `json:"reads"`
				Steps int `json:"steps"`
			} `json:"curve"`
		} `json:"runs"`
	}
	if err := json.Unmarshal(data, &figures); err != nil {
		t.Fatal(err)
	}
	if len(figures.Checks) != 2 {
		t.Fatalf("%d views were checked, not train+png and an echo view", len(figures.Checks))
	}
	for _, c := range figures.Checks {
		if len(c.Wrong) != 0 || c.Served != c.Images || c.Fresh < c.Images*98/100 || c.Fresh > c.Images*102/100 {
			t.Errorf("%s: of %d images %d were served, %d fresh, under wrong labels %v", c.View, c.Images, c.Served, c.Fresh, c.Wrong)
		}
	}
	kinds := map[string]bool{}
	for _, r := range figures.Runs {
		kinds[r.Kind] = true
		last := r.Curve[len(r.Curve)-1]
		if last.Fresh < figures.Settings.Fresh || last.Fresh > figures.Settings.Fresh+batchImages {
			t.Errorf("%s: the run ended after %d fresh samples, not %d", r.Kind, last.Fresh, figures.Settings.Fresh)
		}
		reads, repeats := last.Fresh, 1
		if r.Kind == "batch" {
			repeats = r.Factor
		}
		if last.Steps*batchImages != last.Reads*repeats {
			t.Errorf("%s: %d steps for %d reads", r.Kind, last.Steps, last.Reads)
		}
		if r.Kind == "example" { // the view makes up its mind within a cycle of each name
			if last.Reads < reads*3/2 || last.Reads > reads*r.Factor {
				t.Errorf("%d reads of echo%d, %d of them fresh", last.Reads, r.Factor, last.Fresh)
			}
		} else if last.Reads != reads {
			t.Errorf("%s: %d reads, %d counted as fresh", r.Kind, last.Reads, last.Fresh)
		}
	}
	if len(figures.Runs) != 3 || len(kinds) != 3 {
		t.Errorf("the runs were %v", kinds)
	}
}
