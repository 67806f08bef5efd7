package main

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestParseFidelity(t *testing.T) {
	for text, want := range map[string]int{"full": 0, "1": 1, "10": 10} {
		k, err := parseFidelity(text)
		if err != nil || k != want {
			t.Errorf("%q is %d, %v; want %d", text, k, err, want)
		}
		if back, err := parseFidelity(fidelityText(k)); err != nil || back != k {
			t.Errorf("%d is written as %q, which is read as %d, %v", k, fidelityText(k), back, err)
		}
	}
	for _, text := range []string{"", "0", "-1", "1.5", "FULL", "three"} {
		if k, err := parseFidelity(text); statusOf(err) != statusUsage {
			t.Errorf("%q is %d, %v", text, k, err)
		}
	}
}

func TestGapSize(t *testing.T) {
	var never gapSize
	if never.option() != 0 || never.String() != "" {
		t.Errorf("a gap that was not given is %d, %q", never.option(), never.String())
	}
	for text, want := range map[string]int64{"0": -1, "1": 1, "64KiB": 64 << 10, "1MB": 1e6} {
		var g gapSize
		if err := g.Set(text); err != nil || g.option() != want {
			t.Errorf("%q is %d, %v; want %d", text, g.option(), err, want)
		}
	}
	for _, text := range []string{"", "-1", "far", "2TiB"} {
		if err := new(gapSize).Set(text); err == nil {
			t.Errorf("%q is a gap", text)
		}
	}
}

// TestFidelity sets fidelities of a mount, and asks for them.
func TestFidelity(t *testing.T) {
	packed, mnt := packedImages(t)
	if status, out := output(t, prismfs("mount", packed, mnt)); status != statusOK {
		t.Fatal(out)
	}
	for _, c := range []struct {
		args   []string
		status exitStatus
		text   string
	}{
		{[]string{mnt + "/cat+auto"}, statusOK, "cat+auto\tfull\n"},
		{[]string{mnt + "/cat+auto", "3"}, statusOK, "prismfs: warning: " + mnt + "/cat+auto: its images have one fidelity, as all of L3: they are shown as before\n"},
		{[]string{mnt + "/cat+auto+png/"}, statusOK, "cat+auto\t3\n"},
		{[]string{mnt + "/+auto-x", "1"}, statusOK, "prismfs: warning: " + mnt + "/+auto-x: its images have one fidelity, as all of L3: they are shown as before\n"},
		{[]string{mnt}, statusOK, "+auto-x\t1\ncat+auto\t3\n"},
		{[]string{mnt + "/cat+auto", "full"}, statusOK, ""},
		{[]string{mnt + "/cat+auto"}, statusOK, "cat+auto\tfull\n"},
		{[]string{mnt + "/cat+auto", "lots"}, statusUsage, "lots"},
		{[]string{mnt + "/cat+auto", "-12"}, statusUsage, `fidelity "-12" is neither a number`},
		{[]string{mnt + "/cat+auto", "0"}, statusUsage, `fidelity "0" is neither a number`},
		{[]string{mnt + "/cat+auto", "-x"}, statusUsage, "unknown shorthand flag"},
		{[]string{mnt + "/cat+3", "3"}, statusUsage, "no auto view"},
		{[]string{mnt + "/none+auto", "3"}, statusBadInput, "none+auto"},
		{[]string{packed + "/cat+auto", "3"}, statusNotMounted, "no mount of prismfs"},
		{[]string{}, statusUsage, "is missing"},
		{[]string{mnt, "1", "2"}, statusUsage, "is too much"},
	} {
		status, out := output(t, prismfs(append([]string{"fidelity"}, c.args...)...))
		if status != c.status || !strings.Contains(out, c.text) || c.status == statusOK && out != c.text {
			t.Errorf("fidelity %v: status %d, want %d: %s", c.args, status, c.status, out)
		}
	}
	log := cat(t, filepath.Join(mnt, ".prismfs", "log"))
	if !strings.Contains(log, "view=cat+auto fidelity=3 before=0") || !strings.Contains(log, "view=cat+auto fidelity=0 before=3") {
		t.Errorf("changes are not logged: %s", log)
	}
}

// What is set above the fidelities of records is said to be full fidelity.
func TestFidelityOfRecords(t *testing.T) {
	_, mnt := packedImages(t)
	src, packed := writeJPEGs(t, 2)
	mustCall(t, "pack", "--to", "pcr", src, packed)
	if status, out := output(t, prismfs("mount", packed, mnt)); status != statusOK {
		t.Fatal(out)
	}
	for _, c := range []struct{ path, k, text string }{
		{"/+auto", "2", ""},
		{"/cat+auto", "full", ""},
		{"/+auto", "99", "prismfs: warning: " + mnt + "/+auto: no image has fidelity 99, 10 is the largest: all are shown at full fidelity\n"},
		{"/cat+auto", "11", "prismfs: warning: " + mnt + "/cat+auto: no image has fidelity 11, 10 is the largest: all are shown at full fidelity\n"},
	} {
		if status, out := output(t, prismfs("fidelity", mnt+c.path, c.k)); status != statusOK || out != c.text {
			t.Errorf("%s %s: status %d, %q", c.path, c.k, status, out)
		}
	}
	if log := cat(t, filepath.Join(mnt, ".prismfs", "log")); !strings.Contains(log, "full fidelity is used\" view=cat+auto fidelity=11 largest=10") {
		t.Errorf("the log lacks it: %s", log)
	}
}
