package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"prismfs/advice"
	"prismfs/fs"
)

func TestAdvise(t *testing.T) {
	packed, mnt := packedImages(t)
	if status, out := output(t, prismfs("mount", packed, mnt)); status != statusOK {
		t.Fatal(out)
	}
	if status, out := output(t, prismfs("advise", mnt)); status != statusOK || !strings.Contains(out, "No image of this mount has been opened yet") {
		t.Errorf("status %d: %s", status, out)
	}
	cat(t, mnt+"/cat+png/0.png")
	if status, out := output(t, prismfs("advise", mnt)); status != statusOK || !strings.Contains(out, mnt+"/cat+png: 1 open of images lately is too few") {
		t.Errorf("status %d: %s", status, out)
	}
	status, out := output(t, prismfs("advise", "--json", mnt))
	var got fs.Advised
	if err := json.Unmarshal([]byte(out), &got); err != nil || status != statusOK {
		t.Fatalf("status %d: %v: %s", status, err, out)
	}
	if len(got.Views) != 1 || got.Views[0].Verdict != advice.TooFew || got.Views[0].Seen.Misses != 1 || got.Machine.CacheBudget == 0 || got.Machine.Jobs == 0 {
		t.Errorf("%+v", got)
	}
	if status, out := output(t, prismfs("advise", mnt+"/cat")); status != statusUsage || !strings.Contains(out, "name the mount point, "+mnt) {
		t.Errorf("a folder of the mount: %d: %s", status, out)
	}
	if status, out := output(t, prismfs("advise", packed)); status != statusNotMounted {
		t.Errorf("of what is no mount: status %d: %s", status, out)
	}
}

func TestPrintAdvice(t *testing.T) {
	var out bytes.Buffer
	err := printAdvice(&out, fs.Advised{Views: []advice.Advice{
		{Verdict: advice.Waiting, Text: "train: waits.", Steps: []advice.Step{{Text: "Echo: so."}, {Text: "Plan: so."}}},
		{Verdict: advice.Waiting, Text: "val: waits."},
		{Verdict: advice.Nothing, Text: "test: does not."},
	}, LeftOut: 2})
	want := "train: waits.\n  - Echo: so.\n  - Plan: so.\n\nval: waits.\n  - Nothing that is known here would change that.\n\ntest: does not.\n\n2 more views, which were read less, are left out.\n"
	if err != nil || out.String() != want {
		t.Errorf("%v: %s", err, &out)
	}
}
