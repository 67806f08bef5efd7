package fs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// A source that has the name of the control folder at its root is told of when it is
// mounted, and one that has it elsewhere, where it can be seen, is not.
func TestWarnsOfControlName(t *testing.T) {
	for name, warned := range map[string]bool{controlName: true, "folder/" + controlName: false, ".other": false} {
		for _, isFolder := range []bool{true, false} {
			source := t.TempDir()
			writeSample(t, filepath.Join(source, "a.l3"), rgb8, "")
			path := filepath.Join(source, name)
			if isFolder {
				path = filepath.Join(path, "inside")
			}
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte("of the source"), 0o644); err != nil {
				t.Fatal(err)
			}
			m := spokenMount(t, source)
			m.warnOfSource()
			if log := m.tail.String(); strings.Contains(log, "rename it in the source") != warned {
				t.Errorf("%s, a folder: %v; the log is %q", name, isFolder, log)
			}
		}
	}
}

// No name that is listed is longer than statfs says names can be.
func TestLongestName(t *testing.T) {
	source := t.TempDir()
	long := strings.Repeat("n", 251)
	writeSample(t, filepath.Join(source, long+"m.l3"), rgb8, "") // 255 bytes
	writeSample(t, filepath.Join(source, long+".l3"), rgb8, "")
	if err := os.WriteFile(filepath.Join(source, long+".npy"), []byte("in its way"), 0o644); err != nil {
		t.Fatal(err)
	}
	m := spokenMount(t, source)
	var st fuse.StatfsOut
	if status := m.layer.StatFs(nil, &fuse.InHeader{NodeId: fuse.FUSE_ROOT_ID}, &st); !status.Ok() {
		t.Fatal(status)
	}
	for _, name := range []string{long + "m.npy", long + ".l3.npy"} {
		if lookUp(t, m, name); len(name) > int(st.NameLen) {
			t.Errorf("a name of %d bytes is shown, %d can be", len(name), st.NameLen)
		}
	}
}
