package dataset

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"prismfs/pcr"
)

// This file finds out which folders of the source are PCR folders, and which
// paths lie in the tree that such a folder shows instead of its records.

const (
	// recheckAfter is how long it is taken for granted that a folder is what it
	// was. A record that changes is noticed at once, by its identity.
	recheckAfter = time.Second

	// maxFolderStates bounds the number of folders of which it is remembered
	// whether they hold records: about 200 bytes each, if they do not.
	maxFolderStates = 16384

	// looksInto is how many entries of a folder without an index are looked at for
	// records. A folder of a million other files is not read for it, and one of
	// records has little else.
	looksInto = 1024
)

// folderState is what is known of a folder of the source.
type folderState struct {
	checked atomic.Int64              // when, nanoseconds of the clock of this process; 0: never
	folder  atomic.Pointer[pcrFolder] // nil where it holds no records

	mu         sync.Mutex // of checks
	dir, index Identity   // as they were when it was looked into
	settled    bool       // another change of the folder would change dir
	gone       bool       // it held records, and is not there any more
	incomplete bool       // records, or the index, were lost when it was looked into
	onlyIndex  bool       // it was the index
}

// started is what times are counted from.
var started = time.Now()

// pcrFolderOf returns the PCR folder in whose tree a path lies, and the path
// there. The folder is nil where there is none, or where the path is that of
// something real in it: then the store is to be asked. Of the path's last part
// it is not asked whether it is a PCR folder itself.
func (d *Dataset) pcrFolderOf(ctx context.Context, path string) (f *pcrFolder, inside string, err error) {
	if checkPath(path) != nil {
		return nil, "", nil // the store says what is wrong with it
	}
	for at, rest := "", path; rest != ""; {
		f, err := d.folderAt(ctx, at)
		if err != nil {
			return nil, "", err
		}
		name, after, _ := strings.Cut(rest, "/")
		if f != nil && !f.isReal(name) {
			return f, rest, nil
		}
		at, rest = path[:len(path)-len(rest)+len(name)], after
	}
	return nil, "", nil
}

// join puts a name behind a path of the source.
func join(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}

// folderAt returns the PCR folder at path, nil if it is none: another folder, a
// file, or nothing at all.
func (d *Dataset) folderAt(ctx context.Context, path string) (*pcrFolder, error) {
	state, ok := d.folders.Get(path)
	if !ok {
		fresh := new(folderState)
		if earlier, found, _ := d.folders.PeekOrAdd(strings.Clone(path), fresh); found {
			state = earlier
		} else {
			state = fresh
		}
	}
	if f, ok := state.recent(d.recheck); ok {
		return f, nil
	}
	state.mu.Lock()
	defer state.mu.Unlock()
	if f, ok := state.recent(d.recheck); ok {
		return f, nil
	}
	// Others wait for the answer, who may have more patience.
	if err := d.check(context.WithoutCancel(ctx), path, state); err != nil {
		return nil, err
	}
	return state.folder.Load(), nil
}

// recent returns what is known of a folder if that need not be looked at again.
func (s *folderState) recent(recheck time.Duration) (*pcrFolder, bool) {
	t := s.checked.Load()
	if t == 0 || time.Since(started)-time.Duration(t) >= recheck {
		return nil, false
	}
	f := s.folder.Load()
	return f, f == nil || !f.isStale()
}

// check brings a state up to date.
func (d *Dataset) check(ctx context.Context, path string, state *folderState) error {
	begun := time.Now()
	info, err := d.store.Stat(ctx, path)
	if err != nil && storeFails(err) {
		return err // what is known may be right again when it has recovered
	}
	if err != nil || info.Kind != Dir {
		// Whatever is to be said of this path, the one who wanted something of it
		// will be told by the store.
		d.gone(path, state)
		state.checked.Store(0)
		return nil
	}
	f := state.folder.Load()
	current := state.checked.Load() != 0 && info.ID == state.dir && (f == nil || d.isCurrent(ctx, f, state.index))
	if current && state.settled {
		state.looked(info.ID, begun)
		return nil
	}
	index, indexInfo, err := d.findIndex(ctx, path)
	if err != nil {
		return err
	}
	if !current || f != nil && f.kept.Load() {
		keep, err := d.isBeingWritten(ctx, f, index, indexInfo.ID == state.index)
		if err != nil {
			return err
		}
		if keep {
			d.keep(f)
			state.looked(info.ID, begun)
			return nil
		}
	}
	if index == "" {
		records, err := d.hasRecords(ctx, path)
		if err != nil {
			return err
		}
		if !records {
			d.gone(path, state)
			state.index = Identity{}
			state.looked(info.ID, begun)
			return nil
		}
	}
	loaded, err := d.loadFolder(ctx, path, index, indexInfo, f)
	if err != nil {
		return d.failed("read the index of", path, err)
	}
	state.folder.Store(loaded)
	state.tellOfReturn(loaded)
	state.index = indexInfo.ID
	state.looked(info.ID, begun)
	return nil
}

// looked notes that a state is right for a folder that is dir, as it was at a time.
func (s *folderState) looked(dir Identity, at time.Time) {
	f := s.folder.Load()
	s.dir, s.settled = dir, isSettled(dir, at) && (f == nil || !f.unsure)
	s.checked.Store(max(int64(at.Sub(started)), 1))
}

// gone notes that a folder holds no records, and says so if it did.
func (d *Dataset) gone(path string, state *folderState) {
	if state.folder.Swap(nil) == nil {
		return
	}
	state.gone = true
	d.log.Error("a dataset is gone from the source: its folder or its records were removed, renamed or moved away", "folder", d.full(path))
}

// isBeingWritten reports whether a folder whose tree is known has lost its index,
// as it does when pack begins to write to it, or has pack's marker in it and no
// other index yet.
func (d *Dataset) isBeingWritten(ctx context.Context, f *pcrFolder, index string, same bool) (bool, error) {
	if f == nil || f.index == "" || f.unread || f.table.lost.Load() || index != "" && !same {
		return false, nil
	}
	marked, err := d.isMarked(ctx, f.path)
	if marked || err != nil || index != "" {
		return marked, err
	}
	return d.hasRecords(ctx, f.path)
}

// isMarked reports whether pack's marker lies in a folder.
func (d *Dataset) isMarked(ctx context.Context, path string) (bool, error) {
	marker, err := d.store.Stat(ctx, join(path, PackMarker))
	if err != nil && isScarcity(err) {
		return false, err
	}
	return err == nil && marker.Kind == Regular, nil
}

// keep leaves a folder as it is until there is another index. Records that are
// replaced meanwhile cannot be read.
func (d *Dataset) keep(f *pcrFolder) {
	f.stale.Store(false)
	if !f.kept.Swap(true) {
		d.log.Warn("a dataset is being written to, or has lost its index; it is shown as it was until there is an index again",
			"folder", d.full(f.path))
	}
}

// isCurrent reports whether a folder, which has the same entries, is what it was.
func (d *Dataset) isCurrent(ctx context.Context, f *pcrFolder, index Identity) bool {
	switch {
	case f.isStale(), d.lostRecordsReturn(ctx, f):
		return false
	case f.index == "":
		return true // one that has come since would have changed the folder
	}
	info, err := d.store.Stat(ctx, join(f.path, f.index))
	return err == nil && info.ID == index
}

// findIndex returns the name of the index file of a folder, "" if it has none.
func (d *Dataset) findIndex(ctx context.Context, path string) (string, Info, error) {
	for _, name := range [...]string{pcr.IndexNamePB, pcr.IndexNameSQLite} {
		info, err := d.store.Stat(ctx, join(path, name))
		switch {
		case err == nil && info.Kind == Regular:
			return name, info, nil
		case err != nil && isScarcity(err):
			return "", Info{}, err
		}
	}
	return "", Info{}, nil
}

// hasRecords reports whether a folder without an index holds records. One that
// may not be listed holds none that could be found.
func (d *Dataset) hasRecords(ctx context.Context, path string) (bool, error) {
	if info, err := d.store.Stat(ctx, join(path, "PCR_0.pcr")); err == nil && info.Kind == Regular {
		return true, nil
	}
	seen, found := 0, false
	err := d.store.ReadDir(ctx, path, func(e DirEntry) bool {
		seen++
		found = e.Kind == Regular && pcr.IsRecordName(e.Name)
		return !found && seen < looksInto
	})
	if err != nil && (errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR)) {
		return false, nil
	}
	return found, err
}

// isHidden says whether a file of a PCR folder is shown by its images instead.
func isHidden(e DirEntry) bool {
	return e.Kind == Regular && (pcr.IsRecordName(e.Name) || e.Name == pcr.IndexNamePB || e.Name == pcr.IndexNameSQLite)
}
