package dataset

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/gob"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// The file of a table, one a PCR folder:
//
//	0     16  tableMagic
//	16    32  fingerprint of the folder
//	48    8   bytes of the file
//	56    8   where the tree begins
//	64    8   where its last part, the head, begins
//	72    4   CRC-32C of tree and head
//	76    4   CRC-32C of the bytes before
//	4096      blocks of the records (pcr_columns.go), mostly holes at first
//	tree      order 4 m, then, where images have names, forms n,
//	          padded to 4, ends of the names 4 n, names; see tree
//	head      tableHead, by encoding/gob
//
// Everything but the blocks is written before the file gets its name.

const (
	tableMagic       = "prismfs table 2\n"
	tableHeaderBytes = 4096
	tableHeaderUsed  = 80

	// tableSuffix ends the names of tables; one that is being written has
	// unfinishedPrefix before its name too.
	tableSuffix      = ".table"
	unfinishedPrefix = "new-"

	// tableAge is how long a table is kept that nobody uses.
	tableAge = 90 * 24 * time.Hour
)

// tableHead is the part of a table that is read into memory.
type tableHead struct {
	Notes   folderNotes
	Records []recordHead
	Classes []class
	Images  int
	Shown   int
	Names   bool
}

// errOtherFolder says that a table is of another state of the folder.
var errOtherFolder = errors.New("the folder has changed since the table was made")

// errBadTable says that a table is damaged.
var errBadTable = errors.New("damaged table")

// errNoTableDir says that there is no folder for tables, by the user's wish or
// because there is no cache folder.
var errNoTableDir = errors.New("there is no folder for tables")

// errReadOnlyTable says that a table can be read and not written to.
var errReadOnlyTable = errors.New("the table may only be read")

// isNoTable tells errors that are part of ordinary life.
func isNoTable(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, errOtherFolder)
}

// tablePath returns the file for the table of a folder, "" for none. The name is
// that of the folder; its state is in the file, so that an old table does not
// outlive its use.
func (d *Dataset) tablePath(path string) string {
	if d.tableDir == "" {
		return ""
	}
	key := d.store.String() + "\x00" + path
	if d.keepDuplicates {
		key += "\x00all"
	}
	sum := sha256.Sum256([]byte(key))
	return filepath.Join(d.tableDir, hex.EncodeToString(sum[:16])+tableSuffix)
}

// defaultTableDir returns the folder for tables, "" if the user has no cache
// folder.
func defaultTableDir() string {
	cache, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(cache, "prismfs", "tables")
}

// tableFile is a table that is being written.
type tableFile struct {
	path string

	mu   sync.Mutex
	file *os.File // nil if the table is to be in memory
	why  error    // of that, if a file was wanted
	end  int64    // of the blocks
}

// newTableFile begins a table. If there can be no file, it will be in memory.
func (f *pcrFolder) newTableFile(path string) *tableFile {
	w := &tableFile{path: path, end: tableHeaderBytes}
	if path == "" {
		w.why = errNoTableDir
		return w
	}
	err := os.MkdirAll(filepath.Dir(path), 0o700)
	if err == nil {
		removeOldTables(filepath.Dir(path))
		w.file, err = createUnfinished(filepath.Dir(path))
	}
	if err != nil {
		w.file, w.why = nil, err
	}
	return w
}

// createUnfinished makes a file that nobody else writes to, and locks it for as long
// as it is open: one that is not locked was left by a process that was killed. Where
// files cannot be locked, it is as if it were.
func createUnfinished(dir string) (*os.File, error) {
	for {
		file, err := os.CreateTemp(dir, unfinishedPrefix+"*"+tableSuffix)
		if err != nil {
			return nil, err
		}
		_ = unix.Flock(int(file.Fd()), unix.LOCK_EX)
		// Who looks for what was left may have come between.
		var st unix.Stat_t
		if err := unix.Fstat(int(file.Fd()), &st); err != nil || st.Nlink > 0 {
			return file, nil
		}
		file.Close()
	}
}

// removeOldTables removes tables that have not been opened for long, and what
// a process that was killed has left half written.
func removeOldTables(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		name := e.Name()
		unfinished := strings.HasPrefix(name, unfinishedPrefix)
		if !unfinished && !strings.HasSuffix(name, tableSuffix) {
			continue
		}
		path := filepath.Join(dir, name)
		if unfinished && strings.HasSuffix(name, tableSuffix) && removeUnlocked(path) {
			continue
		}
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > tableAge {
			os.Remove(path) // another process may have done so
		}
	}
}

// removeUnlocked removes a file unless somebody has it locked, or it cannot be told.
func removeUnlocked(path string) bool {
	file, err := os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer file.Close()
	return unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil && os.Remove(path) == nil
}

// place gives the block of a record its place, and writes what is known of it.
func (w *tableFile) place(l *recordLoad) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.file == nil {
		return
	}
	l.head.Block = w.end
	w.end += l.head.blockBytes()
	if l.block == nil {
		return
	}
	if _, err := w.file.WriteAt(l.block, l.head.Block); err != nil {
		w.drop(err)
		return
	}
	l.block = nil
}

// begin returns the table as far as it is.
func (w *tableFile) begin(f *pcrFolder) *table {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.file == nil {
		return memoryTable()
	}
	err := w.file.Truncate(w.end)
	if err == nil {
		err = fillHoles(w.file, w.end)
	}
	if err == nil {
		var t *table
		if t, err = mapTable(w.file, w.path); err == nil {
			return t
		}
	}
	w.drop(err)
	return memoryTable()
}

// fillHoles takes the room for a table of so many bytes where reading a hole of a
// mapped file takes some too, and faults if there is none: in a tmpfs.
func fillHoles(file *os.File, size int64) error {
	var st unix.Statfs_t
	if unix.Fstatfs(int(file.Fd()), &st) != nil || int64(st.Type) != unix.TMPFS_MAGIC {
		return nil
	}
	if err := unix.Fallocate(int(file.Fd()), 0, 0, size); err != nil {
		return fmt.Errorf("making room for %s: %w", file.Name(), err)
	}
	return nil
}

// drop gives the file up, and keeps the reason.
func (w *tableFile) drop(why error) {
	if w.file != nil {
		os.Remove(w.file.Name())
		w.file, w.why = nil, why
	}
}

// discard gives the file up if it has not got its name.
func (w *tableFile) discard() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.drop(nil)
}

// reason returns why the table is in memory; nil where it is a file.
func (w *tableFile) reason() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.why
}

// finish writes the tree of a folder, and gives the file its name. Tree and
// table of the folder are mapped from then on.
func (w *tableFile) finish(f *pcrFolder) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.file == nil || f.table.noBlocks.Load() {
		return nil
	}
	t := f.tree
	parts := [][]byte{t.order}
	if len(t.forms) > 0 {
		parts = append(parts, t.forms, make([]byte, -len(t.forms)&3), t.nameEnds, t.names)
	}
	head := tableHead{
		Notes: f.notes, Classes: t.classes, Images: t.images, Shown: t.order.len(), Names: len(t.forms) > 0,
	}
	for _, r := range f.records {
		head.Records = append(head.Records, r.recordHead)
	}
	var encoded bytes.Buffer
	if err := gob.NewEncoder(&encoded).Encode(&head); err != nil {
		return err
	}
	at, sum := w.end, uint32(0)
	put := func(b []byte) error {
		_, err := w.file.WriteAt(b, at)
		at += int64(len(b))
		sum = crc32.Update(sum, castagnoli, b)
		return err
	}
	for _, p := range parts {
		if err := put(p); err != nil {
			return err
		}
	}
	headAt := at
	if err := put(encoded.Bytes()); err != nil {
		return err
	}
	header := tableHeader(f.print, at, w.end, headAt, sum)
	if _, err := w.file.WriteAt(header, 0); err != nil {
		return err
	}
	if err := os.Rename(w.file.Name(), w.path); err != nil {
		return err
	}
	file := w.file
	w.file = nil
	mapped, err := mapTable(file, w.path)
	if err != nil {
		return err
	}
	f.table = mapped
	for _, r := range f.records {
		r.file.Store(nil)
	}
	f.useTree(&head, w.end, headAt)
	return nil
}

// lockTables keeps other processes from giving a table its name until the
// function that it returns is called. Without a folder that can be locked a table
// may be replaced by one that knows less.
func lockTables(path string) (unlock func()) {
	dir, err := os.Open(filepath.Dir(path))
	if path == "" || err != nil {
		return func() {}
	}
	_ = unix.Flock(int(dir.Fd()), unix.LOCK_EX)
	return func() { dir.Close() }
}

func tableHeader(print fingerprint, size, treeAt, headAt int64, sum uint32) []byte {
	h := make([]byte, 0, tableHeaderUsed)
	h = append(h, tableMagic...)
	h = append(h, print[:]...)
	for _, v := range []int64{size, treeAt, headAt} {
		h = binary.LittleEndian.AppendUint64(h, uint64(v))
	}
	h = binary.LittleEndian.AppendUint32(h, sum)
	return binary.LittleEndian.AppendUint32(h, crc32.Checksum(h, castagnoli))
}

// useTree makes the folder's tree that of its mapped table.
func (f *pcrFolder) useTree(head *tableHead, treeAt, headAt int64) {
	t := newTree(f.records)
	t.classes = head.Classes
	t.setDigits()
	t.indexClasses()
	rest := f.table.data[treeAt:headAt]
	take := func(n int) []byte {
		part := rest[:n:n]
		rest = rest[n:]
		return part
	}
	t.images = head.Images
	t.order = take(4 * head.Shown)
	if head.Names {
		t.forms = take(head.Images)
		take(-head.Images & 3)
		t.nameEnds = take(4 * head.Images)
		t.names = rest
	}
	f.tree = t
}

// openTable reads the table of a folder, if there is one and it belongs to the
// folder as it is now.
func (f *pcrFolder) openTable(path string, files *folderFiles) error {
	if path == "" {
		return fs.ErrNotExist
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	readOnly := errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.EROFS)
	if readOnly {
		file, err = os.Open(path)
	}
	if err != nil {
		return err
	}
	t, err := mapTable(file, path)
	if err != nil {
		return fmt.Errorf("%w: %w", errBadTable, err)
	}
	t.noBlocks.Store(readOnly)
	if readOnly {
		f.withoutTable(errReadOnlyTable)
	}
	f.table = t
	if err = t.safely(func() error { return f.readTable(files) }); err != nil {
		f.table, f.tree, f.records = nil, nil, nil
		f.notes = folderNotes{}
		return err
	}
	// Its age counts from its last use. That this fails does no harm.
	now := time.Now()
	_ = os.Chtimes(path, now, now)
	return nil
}

// readTable checks a mapped table and takes the folder from it.
func (f *pcrFolder) readTable(files *folderFiles) error {
	data := f.table.data
	h := data[:tableHeaderUsed]
	if string(h[:len(tableMagic)]) != tableMagic {
		return fmt.Errorf("%w: it does not begin as one", errBadTable)
	}
	if crc32.Checksum(h[:76], castagnoli) != binary.LittleEndian.Uint32(h[76:]) {
		return fmt.Errorf("%w: its header", errBadTable)
	}
	if fingerprint(h[16:48]) != f.print {
		return errOtherFolder
	}
	size, treeAt, headAt := binary.LittleEndian.Uint64(h[48:]), binary.LittleEndian.Uint64(h[56:]), binary.LittleEndian.Uint64(h[64:])
	if size != uint64(len(data)) || treeAt < tableHeaderBytes || headAt < treeAt || headAt > size {
		return fmt.Errorf("%w: %d bytes instead of %d", errBadTable, len(data), size)
	}
	if crc32.Checksum(data[treeAt:], castagnoli) != binary.LittleEndian.Uint32(h[72:]) {
		return fmt.Errorf("%w: its tree", errBadTable)
	}
	var head tableHead
	if err := gob.NewDecoder(bytes.NewReader(data[headAt:])).Decode(&head); err != nil {
		return fmt.Errorf("%w: %w", errBadTable, err)
	}
	if err := head.check(int64(treeAt), int64(headAt), files); err != nil {
		return err
	}
	f.notes = head.Notes
	for _, r := range head.Records {
		f.records = append(f.records, newRecord(f, r, files.infos[r.Name]))
	}
	f.useTree(&head, int64(treeAt), int64(headAt))
	return f.tree.check()
}

// check holds what a table says against its size and the folder.
func (h *tableHead) check(treeAt, headAt int64, files *folderFiles) error {
	bad := func(what string) error { return fmt.Errorf("%w: %s", errBadTable, what) }
	next := 0
	for i := range h.Records {
		r := &h.Records[i]
		info, ok := files.infos[r.Name]
		if !ok || info.Size != r.Size {
			return errOtherFolder
		}
		if r.Images < 1 || int(r.First) != next || len(r.Lengths) < 2 || r.Images > maxImages-next {
			return bad("a record")
		}
		next += r.Images
		var sum int64
		for _, n := range r.Lengths {
			if n < 0 || sum+n < sum {
				return bad("lengths of a record")
			}
			sum += n
		}
		if r.checkBlock() != nil || r.Block < tableHeaderBytes || r.Block&7 != 0 || r.Block+r.blockBytes() > treeAt {
			return bad("the place of a record")
		}
	}
	need := int64(h.Shown) * 4
	if h.Names {
		need += int64(h.Images)*5 + int64(-h.Images&3)
	}
	if h.Images != next || h.Shown < 0 || h.Shown > h.Images || treeAt+need > headAt {
		return bad("the number of images")
	}
	var start uint32
	for i, c := range h.Classes {
		if c.Start != start || uint64(c.Start)+uint64(c.Count) > uint64(h.Shown) || i > 0 && c.Label <= h.Classes[i-1].Label {
			return bad("a class")
		}
		start += c.Count
	}
	return nil
}

// check looks for numbers in a tree that lead out of it.
func (t *tree) check() error {
	images := uint32(t.images)
	for i := range t.order.len() {
		if t.order.at(i) >= images {
			return fmt.Errorf("%w: an image", errBadTable)
		}
	}
	var before uint32
	for i := range t.nameEnds.len() {
		end := t.nameEnds.at(i)
		named := t.form(i) != formNumber && t.form(i) != formReserved
		if end < before || end > uint32(len(t.names)) || t.form(i) > formReserved || named && end-before > maxPathBytes {
			return fmt.Errorf("%w: a name", errBadTable)
		}
		before = end
	}
	return nil
}
