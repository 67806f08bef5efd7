package fs

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"prismfs/dataset"
	"prismfs/tensor"
)

func TestParseRunning(t *testing.T) {
	for text, want := range map[string]int{
		"0.20 0.18 0.12 1/80 11206\n":        1,
		"10.20 7.18 9.12 14/8000 112\n":      14,
		"":                                   -1,
		"0.20 0.18":                          -1,
		"0.20 0.18 0.12 1 2":                 -1,
		"0.20 0.18 0.12 x/80 2":              -1,
		"0.20 0.18 0.12 /80 2":               -1,
		"0.2 0.2 0.1 99999999999999999/80 2": -1,
	} {
		got, ok := parseRunning([]byte(text))
		if !ok {
			got = -1
		}
		if got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}

func TestCountRanges(t *testing.T) {
	for list, want := range map[string]int{"0": 1, "0-3": 4, "0-3,6": 5, "0,2,4-5": 4, "": 0, "a": 0, "3-1": 0, "0-": 0, "0-99999999": 0} {
		if got := countRanges(list); got != want {
			t.Errorf("%q: %d, want %d", list, got, want)
		}
	}
}

// TestSpare: half as many threads as there are processors may wait for one.
func TestSpare(t *testing.T) {
	name := filepath.Join(t.TempDir(), "loadavg")
	for running, want := range map[string]bool{"1": true, "4": true, "6": true, "7": false, "40": false} {
		if err := os.WriteFile(name, []byte("0.1 0.1 0.1 "+running+"/80 11\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		p := &processors{load: f, count: 4}
		if got := p.spare(); got != want {
			t.Errorf("%s run on 4 processors: %v", running, got)
		}
		p.close()
	}
	unknown := &processors{count: 4}
	if !unknown.spare() {
		t.Error("where the system does not say, there are none")
	}
	unknown.close()
}

// TestProcessorsOfThisMachine: the running thread of this test is among those
// that are counted.
func TestProcessorsOfThisMachine(t *testing.T) {
	p := openProcessors()
	defer p.close()
	if p.count < 1 || p.load == nil {
		t.Fatalf("%+v", p)
	}
	var buf [128]byte
	n, _ := p.load.ReadAt(buf[:], 0)
	if running, ok := parseRunning(buf[:n]); !ok || running < 1 {
		t.Errorf("%q: %d run", buf[:n], running)
	}
}

// TestAheadSourceList: the names of samples, and nothing else.
func TestAheadSourceList(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "a", "folder.l3"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a/1.l3", "a/2.l3", "a/README", "a/.l3", "3.l3"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	store, err := dataset.OpenLocal(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	a := &aheadSource{&mount{ds: dataset.Open(store, dataset.Options{})}}
	for folder, want := range map[string][]string{"a": {"1.l3", "2.l3"}, "": {"3.l3"}} {
		names, err := a.List(aheadFolder{path: folder}, 2)
		slices.Sort(names)
		if err != nil || !slices.Equal(names, want) {
			t.Errorf("%q: %q, %v", folder, names, err)
		}
	}
	if names, err := a.List(aheadFolder{path: "a"}, 1); err == nil {
		t.Errorf("more than are allowed: %q", names)
	}
	if _, err := a.List(aheadFolder{path: "none"}, 1); err == nil {
		t.Error("a folder that is not there was listed")
	}
}

func TestAheadOf(t *testing.T) {
	form := tensor.Form{Container: tensor.PNG}
	for path, want := range map[string][2]string{"a/b/1.l3": {"a/b", "1.l3"}, "1.l3": {"", "1.l3"}} {
		// The view's fidelity is the same throughout a folder, the content's may not be.
		c := content{sample: &dataset.Sample{Path: path}, form: form, fidelity: 6}
		in, name := aheadOf(c, View{Fidelity: 9, Form: tensor.Form{Container: tensor.Orig}})
		if in != (aheadFolder{want[0], form, 9}) || name != want[1] {
			t.Errorf("%s: %+v, %s", path, in, name)
		}
	}
}
