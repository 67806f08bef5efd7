package integration

import (
	"fmt"
	"math"
	"path/filepath"
	"testing"

	"prismfs/advice"
)

// step returns the step of a kind, if there is one.
func step(a advice.Advice, kind advice.Kind) (advice.Step, bool) {
	for _, s := range a.Steps {
		if s.Kind == kind {
			return s, true
		}
	}
	return advice.Step{}, false
}

// slowSource is a store of 1.5 MB/s: an image of the dataset takes 37 ms at full
// fidelity, far more than to decode it.
const slowSource = "1500kB"

// TestAdviceOnASlowSource: a fast consumer of a slow source is told to echo and to
// read a lower fidelity, and both free it.
func TestAdviceOnASlowSource(t *testing.T) {
	mt := mount(t, pcrFixture(t, "pb"), best, append(noTables, "--throttle", slowSource, "--read-ahead", "off")...)
	ask := func(view string) advice.Advice {
		var a advice.Advice
		checkInto(t, &a, "advice", args{"binary": binary, "mount": mt.dir, "view": view, "reads": 40, "pause": 0.002, "seed": 1})
		t.Log(a.Text, a.Steps)
		return a
	}
	full := ask("")
	echo, echoes := step(full, advice.Echo)
	fidelity, coarser := step(full, advice.Fidelity)
	if full.Verdict != advice.Waiting || !echoes || !coarser || echo.Value < 2 || fidelity.Value >= 10 || full.Seen.Store < full.Seen.Waited/2 {
		t.Fatalf("a fast consumer of a slow source is told: %+v", full)
	}
	low := ask(fmt.Sprintf("+%g", fidelity.Value))
	if now, before := low.Seen.Waited, full.Seen.Waited; now > before*2/3 {
		t.Errorf("at fidelity %g readers wait %v, at full fidelity %v", fidelity.Value, now, before)
	}
	var got struct {
		Plain, Echo struct{ Seconds, Bytes float64 }
	}
	checkInto(t, &got, "echo_frees", args{"mount": mt.dir, "plain": "+orig", "echo": fmt.Sprintf("+orig+echo%g", echo.Value), "passes": 1, "seed": 2})
	t.Logf("%+v", got)
	// In its first pass an echo view decodes more than 1/e, until there is something
	// to draw from.
	if got.Echo.Seconds > min(3/echo.Value, 0.9)*got.Plain.Seconds || got.Echo.Bytes > min(1.6/echo.Value, 0.9)*got.Plain.Bytes {
		t.Errorf("with echo%g a read takes %.1f ms and %.0f bytes, without %.1f and %.0f",
			echo.Value, 1000*got.Echo.Seconds, got.Echo.Bytes, 1000*got.Plain.Seconds, got.Plain.Bytes)
	}
}

// TestAdviceOnASlowConsumer: who takes his time waits for nothing.
func TestAdviceOnASlowConsumer(t *testing.T) {
	packed, _ := policyDataset(t)
	mt := mount(t, packed, best, "--read-ahead", "off")
	var a advice.Advice
	checkInto(t, &a, "advice", args{"binary": binary, "mount": mt.dir, "view": "train", "reads": 36, "pause": 0.05, "seed": 1, "readers": 2})
	if a.Verdict != advice.Nothing || len(a.Steps) != 0 {
		t.Errorf("a slow consumer is told: %+v", a)
	}
	if d := math.Abs(float64(a.Seen.Files) - policyImages/2); d > policyImages/4 {
		t.Errorf("about %d different files were read", a.Seen.Files)
	}
	if filepath.Base(a.Seen.View) != "train" {
		t.Errorf("the view is called %q", a.Seen.View)
	}
}
