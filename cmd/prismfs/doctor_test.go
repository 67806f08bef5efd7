package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"prismfs/doctor"
)

func TestDoctor(t *testing.T) {
	none := filepath.Join(t.TempDir(), "no-such-library.so.1")
	t.Setenv("PRISMFS_LIBCUDA", none)
	t.Setenv("PRISMFS_LIBNVML", none)
	status, stdout, stderr := call("doctor")
	if status != statusOK || stderr != "" {
		t.Fatalf("status %d: %s", status, stderr)
	}
	for _, name := range []string{"kernel", "fuse", "run", "passthrough", "memory", "decoder", "libjpeg", "libcuda", "libnvidia-ml", "backend", "speed"} {
		if !strings.Contains("\n"+stdout, "\n"+name+" ") {
			t.Errorf("no line of %s:\n%s", name, stdout)
		}
	}
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	if last := lines[len(lines)-1]; !strings.HasPrefix(last, "speed ") {
		t.Errorf("the last line is %q", last)
	}
	if !strings.Contains(stdout, none) || !strings.Contains(stdout, "-> if the machine has an NVIDIA card") {
		t.Errorf("a library that is missing has no reason or remedy:\n%s", stdout)
	}
	status, stdout, _ = call("doctor", "--json")
	var r doctor.Report
	if err := json.Unmarshal([]byte(stdout), &r); err != nil || status != statusOK || r.Class == "" || len(r.Checks) < 9 || len(r.Devices) != 0 {
		t.Errorf("status %d, error %v:\n%s", status, err, stdout)
	}
	if status, _, _ = call("doctor", "x"); status != statusUsage {
		t.Errorf("an argument: status %d", status)
	}
}
