package kernels

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestPTX compiles the kernels again and compares with what is embedded.
func TestPTX(t *testing.T) {
	if _, err := exec.LookPath("clang-16"); err != nil {
		t.Skip("no clang-16: the embedded PTX is not compared with the sources")
	}
	file := filepath.Join(t.TempDir(), "l3.ptx")
	if out, err := exec.Command("./compile", file).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if string(readFile(t, file)) != PTX {
		t.Error("l3.ptx is not what the sources are compiled to: run go generate ./gpudecode/kernels")
	}
}

// TestPTXKernels checks that the module has all kernels, that none keeps variables
// in memory of its own, which would be slow, and that it is for the devices that it
// says.
func TestPTXKernels(t *testing.T) {
	for _, want := range append(names[:], ChecksumName) {
		if !strings.Contains(PTX, ".visible .entry "+want+"(") {
			t.Errorf("the module has no kernel %s", want)
		}
	}
	if strings.Contains(PTX, ".local") {
		t.Error("a kernel has local memory")
	}
	if !strings.Contains(PTX, ".version 6.3\n.target sm_70\n") {
		t.Error("the module is not of PTX 6.3 for sm_70")
	}
}
