package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The example that sets fidelities says in a line what is wrong, as the command
// does.
func TestAutotuneSaysWhatIsWrong(t *testing.T) {
	if testing.Short() {
		t.Skip("loading torch takes seconds")
	}
	python := os.Getenv("PYTHON")
	if python == "" {
		python = "/usr/bin/python3"
	}
	dir := t.TempDir()
	// One process for all of them, since loading torch takes seconds.
	const program = `import sys
try:
    import torch, torchvision
except ImportError as error:
    sys.exit(f"skip: {error}")
sys.path.insert(0, "../../examples")
import autotune
for words in sys.argv[1:]:
    sys.argv = ["autotune.py", *words.split()]
    try:
        autotune.main()
        print("it ended well")
    except SystemExit as end:
        print(end)`
	out, err := exec.Command(python, "-B", "-c", program, "--prismfs "+os.Args[0]+" "+dir+"/train",
		"--prismfs "+os.Args[0]+" "+dir+"/train+auto", "--prismfs nosuch "+dir+"/train+auto").CombinedOutput()
	if strings.HasPrefix(string(out), "skip: ") {
		t.Skip(string(out))
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	want := []string{"does not end in +auto", "cannot be read as images", "there is no command nosuch"}
	if err != nil || len(lines) != len(want) {
		t.Fatalf("%v: %s", err, out)
	}
	for i, text := range want {
		if !strings.Contains(lines[i], text) {
			t.Errorf("%q is not in %q", text, lines[i])
		}
	}
}

// The program that makes the sample images takes a word with a hyphen for no folder.
func TestMakeImagesHelp(t *testing.T) {
	python := os.Getenv("PYTHON")
	if python == "" {
		python = "/usr/bin/python3"
	}
	if out, err := exec.Command(python, "-c", "import numpy, PIL").CombinedOutput(); err != nil {
		t.Skipf("numpy and PIL are missing: %s", out)
	}
	program, err := filepath.Abs("../../examples/make_images.py")
	if err != nil {
		t.Fatal(err)
	}
	for word, helped := range map[string]bool{"--help": true, "-h": true, "--nonsense": false} {
		cmd := exec.Command(python, "-B", program, word)
		cmd.Dir = t.TempDir()
		out, err := cmd.CombinedOutput()
		if (err == nil) != helped || !strings.Contains(string(out), "make_images.py DIRECTORY") {
			t.Errorf("%s: %v: %s", word, err, out)
		}
		if made, err := os.ReadDir(cmd.Dir); err != nil || len(made) > 0 {
			t.Errorf("%s made %v, %v", word, made, err)
		}
	}
}
