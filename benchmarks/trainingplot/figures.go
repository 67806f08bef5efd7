package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

// figures are what `benchmarks/training --json` keeps, as far as it is drawn.
type figures struct {
	Settings struct {
		Fresh      int       `json:"fresh"`
		CheckEvery int       `json:"check_every"`
		Targets    []float64 `json:"targets"`
	} `json:"settings"`
	Runs []run `json:"runs"`
}

// run is one training.
type run struct {
	Kind   string  `json:"kind"` // none, example or batch
	Factor int     `json:"factor"`
	Name   string  `json:"name"`
	Rate   float64 `json:"rate"`
	Seed   int     `json:"seed"`
	Curve  []test  `json:"curve"`
}

// test is the accuracy after so many fresh samples.
type test struct {
	Fresh    int     `json:"fresh"`
	Accuracy float64 `json:"accuracy"`
}

// group is the runs that differ in their seed alone.
type group struct {
	kind   string
	factor int
	name   string
	runs   []run
}

// limits on what is read: a run of ten minutes keeps some thousand tests.
const (
	maxJSONBytes = 64 << 20
	maxTests     = 10_000
)

// readFigures reads what a training has kept.
func readFigures(r io.Reader) (*figures, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxJSONBytes+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxJSONBytes {
		return nil, fmt.Errorf("it has more than %d bytes", maxJSONBytes)
	}
	var f figures
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, fmt.Errorf("it is not what benchmarks/training --json writes: %w", err)
	}
	if len(f.Runs) == 0 || f.Settings.CheckEvery <= 0 || f.Settings.Fresh/f.Settings.CheckEvery > maxTests {
		return nil, errors.New("it is not what benchmarks/training --json writes")
	}
	for _, r := range f.Runs {
		if len(r.Curve) == 0 {
			return nil, fmt.Errorf("the run %q with seed %d has no test", r.Name, r.Seed)
		}
	}
	return &f, nil
}

// groups returns the runs by what they were: no echo first, then by kind and factor.
// Of several learning rates it takes each as a group of its own.
func (f *figures) groups() []group {
	rates := map[float64]bool{}
	for _, r := range f.Runs {
		rates[r.Rate] = true
	}
	var found []group
	for _, r := range f.Runs {
		name := r.Name
		if len(rates) > 1 {
			name = fmt.Sprintf("%s, rate %g", name, r.Rate)
		}
		i := slices.IndexFunc(found, func(g group) bool { return g.name == name })
		if i < 0 {
			i = len(found)
			found = append(found, group{kind: r.Kind, factor: r.Factor, name: name})
		}
		found[i].runs = append(found[i].runs, r)
	}
	order := []string{"none", "example", "batch"}
	slices.SortStableFunc(found, func(a, b group) int {
		if d := slices.Index(order, a.kind) - slices.Index(order, b.kind); d != 0 {
			return d
		}
		return a.factor - b.factor
	})
	return found
}

// summary is the mean of some figures with the least and the most of them.
type summary struct{ mean, least, most float64 }

func summarize(values []float64) summary {
	s := summary{least: slices.Min(values), most: slices.Max(values)}
	for _, v := range values {
		s.mean += v / float64(len(values))
	}
	return s
}

// at returns the accuracies of the group's runs at a test, counted from 0; runs that ended
// before it have none.
func (g group) at(number int) []float64 {
	var found []float64
	for _, r := range g.runs {
		if number < len(r.Curve) {
			found = append(found, r.Curve[number].Accuracy)
		}
	}
	return found
}

// freshTo returns how many fresh samples the runs needed to reach an accuracy, of those
// that did.
func (g group) freshTo(target float64) []float64 {
	var found []float64
	for _, r := range g.runs {
		if i := slices.IndexFunc(r.Curve, func(t test) bool { return t.Accuracy >= target }); i >= 0 {
			found = append(found, float64(r.Curve[i].Fresh))
		}
	}
	return found
}
