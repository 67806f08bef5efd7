package integration

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"prismfs/internal/testfiles"
)

// autoArgs are what every check of an auto view needs.
func autoArgs(mt *mounted, more args) args {
	a := args{"mount": mt.dir, "binary": binary}
	for k, v := range more {
		a[k] = v
	}
	return a
}

// TestAuto sets the fidelity of views while files of them are open and mapped.
func TestAuto(t *testing.T) {
	_, packed := testPCR(t)
	eachMode(t, func(t *testing.T, m mode) {
		mt := mount(t, packed, m, append(slices.Clone(noTables), "--cache", "64MiB")...)
		check(t, "auto", autoArgs(mt, nil))
	})
}

// TestAutoNames: what can be set and what cannot.
func TestAutoNames(t *testing.T) {
	_, packed := testPCR(t)
	mt := mount(t, packed, best, noTables...)
	var socket string
	checkInto(t, &socket, "auto_names", autoArgs(mt, nil))
	if out, err := prismfs("umount", mt.dir); err != nil {
		t.Fatalf("prismfs umount: %v\n%s", err, out)
	}
	<-mt.done
	if _, err := os.Lstat(socket); !os.IsNotExist(err) {
		t.Errorf("the control socket is left behind: %v", err)
	}
}

// TestAutoJobs runs two jobs with workers, each on a view of its own whose
// fidelity changes in mid-epoch.
func TestAutoJobs(t *testing.T) {
	_, packed := testPCR(t)
	changes := 40
	if testing.Short() {
		changes = 12
	}
	for _, m := range []mode{best, noPassthrough, memory} {
		t.Run(m.String(), func(t *testing.T) {
			mt := mount(t, packed, m, append(slices.Clone(noTables), "--cache", "48MiB")...)
			check(t, "auto_jobs", autoArgs(mt, args{"changes": changes}))
		})
	}
}

// TestAutotune runs the example.
func TestAutotune(t *testing.T) {
	_, packed := testPCR(t)
	mt := mount(t, packed, best, noTables...)
	script := filepath.Join(testfiles.Root(), "examples", "autotune.py")
	check(t, "autotune", autoArgs(mt, args{"script": script, "folder": ""}))
}

// TestAutoByDefault mounts with an auto view as the default one.
func TestAutoByDefault(t *testing.T) {
	_, packed := testPCR(t)
	mt := mount(t, packed, best, append(slices.Clone(noTables), "--view", "auto+png")...)
	check(t, "auto_by_default", autoArgs(mt, nil))
	var config map[string]json.RawMessage
	checkInto(t, &config, "config", args{"mount": mt.dir})
	if !bytes.Contains(config["view"], []byte("auto+png")) {
		t.Errorf("the configuration has the view %s", config["view"])
	}
}
