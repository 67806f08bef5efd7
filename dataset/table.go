package dataset

import (
	"errors"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// table keeps what was found out about a PCR folder: a file that is mapped, or
// memory. See table_file.go for the file.
//
// Several processes may use one file at a time. What they write to it is the
// same, since it follows from the records, and everything in it has a checksum,
// so that neither they nor a crash can leave something wrong in it.
type table struct {
	path string   // "" in memory
	file *os.File // nil in memory
	data []byte   // the mapped file, nil in memory
	lost atomic.Bool

	// noBlocks says that offsets and shapes are kept in memory: there is no file,
	// or its disk is full, or it is lost.
	noBlocks atomic.Bool

	mu      sync.Mutex
	blocks  map[*record]int64 // bytes, in memory
	inBytes int64             // of all blocks in memory
}

// maxMemoryTables bounds what a table in memory takes for offsets and shapes.
// Beyond it, all of it is forgotten and found again when needed.
const maxMemoryTables = 256 << 20

// errTableLost says that a mapped file could not be read: it was cut, or its
// disk failed.
var errTableLost = errors.New("the table of offsets has become unreadable")

// mapTable maps a file, which belongs to the table from then on, error or not.
func mapTable(file *os.File, path string) (*table, error) {
	info, err := file.Stat()
	if err == nil && (info.Size() < tableHeaderBytes || int64(int(info.Size())) != info.Size()) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	data, err := unix.Mmap(int(file.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		file.Close()
		return nil, err
	}
	t := &table{path: path, file: file, data: data, blocks: make(map[*record]int64)}
	runtime.AddCleanup(t, func(data []byte) { unix.Munmap(data) }, data)
	return t, nil
}

// memoryTable returns a table without a file.
func memoryTable() *table {
	t := &table{blocks: make(map[*record]int64)}
	t.noBlocks.Store(true)
	return t
}

// holds says whether an address is in the mapped file.
func (t *table) holds(addr uintptr) bool {
	from := uintptr(unsafe.Pointer(unsafe.SliceData(t.data)))
	return addr >= from && addr < from+uintptr(len(t.data))
}

// write writes to the file, part after part.
func (t *table) write(off int64, parts ...[]byte) error {
	for _, p := range parts {
		if _, err := t.file.WriteAt(p, off); err != nil {
			return err
		}
		off += int64(len(p))
	}
	return nil
}

// safely calls f, which may read the mapped file. A file that was cut faults
// then, which would end the process; it is an error instead.
func (t *table) safely(f func() error) (err error) {
	if t.data == nil {
		return f()
	}
	defer runtime.KeepAlive(t) // the mapping stays as long
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		caught := recover()
		if caught == nil {
			return
		}
		fault, ok := caught.(interface{ Addr() uintptr })
		if !ok || !t.holds(fault.Addr()) {
			panic(caught) // not ours
		}
		t.noBlocks.Store(true)
		t.lost.Store(true)
		err = errTableLost
	}()
	return f()
}
