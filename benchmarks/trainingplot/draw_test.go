package main

import (
	"bytes"
	"encoding/json"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// testFigures are three ways with two seeds: without echoes 0.5 is reached by one seed alone.
func testFigures() *figures {
	f := &figures{}
	f.Settings.Fresh, f.Settings.CheckEvery, f.Settings.Targets = 300, 100, []float64{0.3, 0.5}
	add := func(kind string, factor, seed int, accuracies ...float64) {
		r := run{Kind: kind, Factor: factor, Name: kind, Rate: 0.01, Seed: seed}
		for i, a := range accuracies {
			r.Curve = append(r.Curve, test{Fresh: 100 * (i + 1), Accuracy: a})
		}
		f.Runs = append(f.Runs, r)
	}
	add("batch", 2, 1, 0.2, 0.3, 0.4)
	add("batch", 2, 2, 0.1, 0.2, 0.2)
	add("example", 4, 1, 0.4, 0.6, 0.6)
	add("none", 1, 1, 0.1, 0.4, 0.5)
	add("none", 1, 2, 0.3, 0.3, 0.4)
	return f
}

func TestGroups(t *testing.T) {
	groups := testFigures().groups()
	if len(groups) != 3 || groups[0].kind != "none" || groups[1].kind != "example" || groups[2].kind != "batch" {
		t.Fatalf("groups %+v", groups)
	}
	if s := summarize(groups[0].at(1)); math.Abs(s.mean-0.35) > 1e-9 || s.least != 0.3 || s.most != 0.4 {
		t.Errorf("the second test of the first group is %+v", s)
	}
	if got := groups[0].freshTo(0.3); len(got) != 2 || got[0] != 200 || got[1] != 100 {
		t.Errorf("0.3 was reached after %v", got)
	}
	if got := groups[2].freshTo(0.3); len(got) != 1 || got[0] != 200 {
		t.Errorf("0.3 was reached after %v, by the first seed alone", got)
	}
	if target, ok := testFigures().target(groups); !ok || target != 0.3 {
		t.Errorf("the target %v is shown, which not every seed of the baseline has reached", target)
	}
	f := testFigures()
	f.Runs[3].Rate = 0.02
	if got := len(f.groups()); got != 4 {
		t.Errorf("runs with another learning rate make %d groups, not a group of their own", got)
	}
}

func TestPlot(t *testing.T) {
	drawn := func(f *figures) []byte {
		var b bytes.Buffer
		if err := f.writePlot(&b); err != nil {
			t.Fatal(err)
		}
		if c, err := png.DecodeConfig(bytes.NewReader(b.Bytes())); err != nil || c.Width < 500 || c.Height < 500 {
			t.Fatalf("%v, %v", c, err)
		}
		return b.Bytes()
	}
	f := testFigures()
	first := drawn(f)
	f.Runs[2].Curve[2].Accuracy = 0.9
	if bytes.Equal(first, drawn(f)) {
		t.Error("another accuracy gives the same plot")
	}
	f.Settings.Targets = nil
	drawn(f)
}

func TestConvert(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "figures.json"), filepath.Join(dir, "plot.png")
	data, err := json.Marshal(testFigures())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(from, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := convert(from, to); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(to); err != nil || info.Size() == 0 {
		t.Errorf("the plot: %v, %v", info, err)
	}
	for name, text := range map[string]string{
		"no JSON": "plot", "no runs": `{"settings": {"check_every": 1}}`, "no step": `{"runs": [{"curve": [{}]}]}`,
		"no test": `{"settings": {"check_every": 1}, "runs": [{}]}`, "too many": `{"settings": {"check_every": 1, "fresh": 99999999}, "runs": [{"curve": [{}]}]}`,
	} {
		if err := os.WriteFile(from, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := convert(from, to); err == nil || !strings.Contains(err.Error(), from) {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
}
