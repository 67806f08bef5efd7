package dataset

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// What is left of a file's permissions is never more than what every user of a
// class has who goes through the folder: every user of a small world tries.
func TestPassageLeavesNobodyMore(t *testing.T) {
	has := func(mode, owner, group, uid, gid uint32, bit fs.FileMode) bool {
		shift := 0
		switch {
		case uid == owner:
			shift = 6
		case gid == group:
			shift = 3
		}
		return fs.FileMode(mode)>>shift&bit != 0
	}
	kept := 0
	for mode := range uint32(0o1000) {
		if mode&^search != 0 {
			continue // only who may search counts
		}
		for owner := range uint32(3) {
			for group := range uint32(3) {
				p := passage{{mode: mode, uid: owner, gid: group}}
				const file = 0o777
				left := p.restrict(file, 1, 1)
				for uid := range uint32(3) {
					for gid := range uint32(3) {
						through := has(mode, owner, group, uid, gid, 1)
						if has(uint32(left), 1, 1, uid, gid, 4) && !through {
							t.Errorf("a folder %04o of %d:%d leaves %v of a file of 1:1, and %d:%d cannot search it", mode, owner, group, left, uid, gid)
						}
					}
				}
				if left != 0 {
					kept++
				}
			}
		}
	}
	if kept < 20 {
		t.Errorf("only %d folders leave anything", kept)
	}
}

// Links that lead through closed folders show what these leave, wherever the
// folder stands in the target; paths without links, and links that the store is
// not to watch, what the file has.
func TestLinksThroughClosedFolders(t *testing.T) {
	dir := t.TempDir()
	write := func(path string, mode os.FileMode) {
		must(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(path)), 0o755))
		must(t, os.WriteFile(filepath.Join(dir, path), []byte("x"), 0o644))
		must(t, os.Chmod(filepath.Join(dir, path), mode))
	}
	write("open/file", 0o644)
	write("closed/file", 0o664)
	write("closed/inner/file", 0o644)
	write("group/file", 0o640)
	must(t, os.Mkdir(dir+"/links", 0o755))
	for link, target := range map[string]string{
		"to-open": "../open/file", "to-closed": "../closed/file", "through": "../closed/../open/file", "absolute": dir + "/closed/inner/file",
		"folder": "../closed", "inner": "../closed/inner", "twice": "folder/file", "to-group": "../group/file",
	} {
		must(t, os.Symlink(target, dir+"/links/"+link))
	}
	must(t, os.Chmod(dir+"/closed", 0o700))
	must(t, os.Chmod(dir+"/group", 0o750))
	for name, s := range stores(t, dir) {
		for _, watched := range []bool{false, true} {
			if watched {
				s.WatchLinks()
			}
			for path, modes := range map[string][2]fs.FileMode{ // not watched, watched
				"open/file": {0o644, 0o644}, "closed/file": {0o664, 0o664}, "closed/inner/file": {0o644, 0o644},
				"links/to-open": {0o644, 0o644}, "links/to-closed": {0o664, 0o600}, "links/through": {0o644, 0o600},
				"links/absolute": {0o644, 0o600}, "links/folder": {0o700, 0o700}, "links/folder/file": {0o664, 0o600},
				"links/inner": {0o755, 0o700}, "links/inner/file": {0o644, 0o600}, "links/twice": {0o664, 0o600}, "links/to-group": {0o640, 0o640},
			} {
				want := modes[0]
				if watched {
					want = modes[1]
				}
				info, err := s.Stat(context.Background(), path)
				if err != nil || info.Mode != want {
					t.Errorf("%s, watched=%v: %s has %v, want %v (%v)", name, watched, path, info.Mode, want, err)
				}
				if info.Kind != Regular {
					continue
				}
				f, err := s.Open(context.Background(), path)
				if err != nil {
					t.Errorf("%s: %v", path, err)
					continue
				}
				if got := f.Info().Mode; got != want {
					t.Errorf("%s, watched=%v: open, %s has %v, want %v", name, watched, path, got, want)
				}
				f.Close()
			}
		}
	}
}
