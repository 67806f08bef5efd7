// Package dataset knows what a source of packed images holds: its folders, its
// samples and their shapes, and where their bytes are. It reads headers and
// encoded bytes from a store, and hands them out undecoded.
//
// It promises that
//   - what it describes and what it reads belong together: a file that was
//     replaced or written to in between gives ErrChanged, never a mixture of two;
//   - nothing outside the source is read, whatever links say;
//   - nothing is allocated because a file says so before what it says has been
//     held against its size and the limits;
//   - memory for remembered headers, offsets and bytes read ahead is bounded;
//   - reading an image at a fidelity takes bytes of its scan groups up to that one
//     only, and no others but where images are read one after another;
//   - errors name the path and what was being done.
//
// It knows nothing of FUSE, of views and their file names, nor of decoding.
//
// Files that end in .l3 are samples. A folder with an index of PCR records, or
// with records and no index, is shown as a tree of class folders instead, with an
// entry for each image; the other files in it stay as they are. The names are
// those that the records tell, else labels, and places in records. What it takes
// to read an image (where its bytes are, its shape) is found when it is needed
// and kept in a table on disk, so that a dataset of a million images opens in no
// time and takes little memory.
//
// Store is the interface to where the files are; LocalStore is a folder of this
// machine. All paths are relative to the source, slash-separated bytes, ""
// being its root.
package dataset

import (
	"context"
	"io/fs"
	"log/slog"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/singleflight"

	"prismfs/l3"
)

// maxReportedFolders is the number of folders of which it is remembered what
// listings leave out, and that the log has been told: 100 bytes and a path each. Most
// folders leave out nothing.
const maxReportedFolders = 16384

// Options are the choices of Open. The zero value is a good one.
type Options struct {
	// Limits bound the images that are accepted; zero fields are those of
	// l3.DefaultLimits.
	Limits l3.Limits

	// Logger is told of what listings leave out, once a folder; nil for nobody.
	Logger *slog.Logger

	// HeaderBytes bounds the memory for remembered headers; 0 for
	// DefaultHeaderBytes.
	HeaderBytes int64

	// KeepDuplicates shows the images, too, that the last record of a PCR folder
	// repeats from the one before it.
	KeepDuplicates bool

	// MaxGap is the number of bytes between two ranges of a record up to which
	// they are read together, because a seek costs more than that many bytes. 0 is
	// what suits the store: DefaultMaxGap with RemoteReads, else none; a negative
	// one is none.
	MaxGap int64

	// TableDir is the folder for the tables of PCR folders: "" is prismfs/tables in
	// the user's cache folder, NoTables keeps them in memory, and so does a folder
	// that cannot be written to.
	TableDir string

	// RemoteReads says that a request to the store is dear: offsets are found with
	// few large reads instead of many small ones.
	RemoteReads bool
}

// DefaultMaxGap is the gap between ranges up to which they are read together from
// a store where a request is dear: about what comes in the time of one, 10 ms at
// 25 MB/s.
const DefaultMaxGap = 256 << 10

// NoTables as Options.TableDir keeps tables in memory.
const NoTables = "-"

// Stats counts since Open.
type Stats struct {
	StoreBytesRead   uint64 // encoded bytes that came from the store, whether of use or not
	StoreBytesNeeded uint64 // encoded bytes that were asked for and delivered
	StoreBytesIndex  uint64 // bytes of headers, not in the former two

	// What folders left out when they were last listed, of those that were listed:
	// devices, sockets and fifos, and links that cannot be followed. Beyond
	// maxReportedFolders, those that were listed longest ago are not counted any more.
	Specials, BrokenLinks uint64
}

// Dataset is a source of samples. Its methods may be called at the same time.
type Dataset struct {
	store  Store
	limits l3.Limits
	log    *slog.Logger

	keepDuplicates bool
	maxGap         int64
	tableDir       string // "" for none
	remoteReads    bool
	recheck        time.Duration

	headers  *headers
	folders  *lru.Cache[string, *folderState] // by path
	runs     runs
	flights  singleflight.Group            // header reads under way, by path and identity
	reported *lru.Cache[string, omissions] // folders whose omissions have been logged

	bytesRead, bytesNeeded, bytesIndex atomic.Uint64
}

// Open makes a dataset of a store, which stays the caller's to close.
func Open(store Store, opt Options) *Dataset {
	if opt.Limits.MaxPixels == 0 {
		opt.Limits.MaxPixels = l3.DefaultLimits.MaxPixels
	}
	if opt.Limits.MaxBytes == 0 {
		opt.Limits.MaxBytes = l3.DefaultLimits.MaxBytes
	}
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.DiscardHandler)
	}
	if opt.HeaderBytes == 0 {
		opt.HeaderBytes = DefaultHeaderBytes
	}
	reported, err := lru.New[string, omissions](maxReportedFolders)
	if err != nil {
		panic(err) // the size above is positive
	}
	folders, err := lru.New[string, *folderState](maxFolderStates)
	if err != nil {
		panic(err) // the size above is positive
	}
	d := &Dataset{
		store: store, limits: opt.Limits, log: opt.Logger,
		keepDuplicates: opt.KeepDuplicates, maxGap: max(opt.MaxGap, 0), tableDir: opt.TableDir,
		remoteReads: opt.RemoteReads, recheck: recheckAfter,
		headers: newHeaders(opt.HeaderBytes), reported: reported, folders: folders,
	}
	if opt.MaxGap == 0 && opt.RemoteReads {
		d.maxGap = DefaultMaxGap
	}
	switch d.tableDir {
	case "":
		d.tableDir = defaultTableDir()
	case NoTables:
		d.tableDir = ""
	default:
		// A mount leaves the folder that it was started in.
		if abs, err := filepath.Abs(d.tableDir); err == nil {
			d.tableDir = abs
		}
	}
	return d
}

// String names the source.
func (d *Dataset) String() string { return d.store.String() }

// Stats returns what has been counted so far.
func (d *Dataset) Stats() Stats {
	s := Stats{
		StoreBytesRead:   d.bytesRead.Load(),
		StoreBytesNeeded: d.bytesNeeded.Load(),
		StoreBytesIndex:  d.bytesIndex.Load(),
	}
	for _, left := range d.reported.Values() {
		s.Specials += left.specials
		s.BrokenLinks += left.brokenLinks
	}
	return s
}

// Stat describes what path leads to. An image of a record has mode, owner, times
// and identity of the record; its size is that of the JPEG at full fidelity
// where this is known without reading anything, else 0. A folder of the tree
// that a PCR folder shows is described as that folder, but for its inode number.
func (d *Dataset) Stat(ctx context.Context, path string) (Info, error) {
	if err := d.refusePacks(ctx, "look at", path); err != nil {
		return Info{}, err
	}
	f, inside, err := d.pcrFolderOf(ctx, path)
	if err != nil {
		return Info{}, err
	}
	if f != nil {
		info, _, err := d.statInside(ctx, path, f, inside)
		return info, err
	}
	return d.store.Stat(ctx, path)
}

// Open opens a file of the source as it is, to be passed through. Images of
// records are no files: see ReadEncoded.
func (d *Dataset) Open(ctx context.Context, path string) (File, error) {
	if err := d.refusePacks(ctx, "open", path); err != nil {
		return nil, err
	}
	f, inside, err := d.pcrFolderOf(ctx, path)
	if err != nil {
		return nil, err
	}
	if f != nil {
		if _, _, err := d.statInside(ctx, path, f, inside); err != nil {
			return nil, err
		}
		return nil, d.failed("open", path, fs.ErrInvalid)
	}
	return d.store.Open(ctx, path)
}

// Scan is ReadDir for who only looks something up in a folder: nothing is
// counted or logged.
func (d *Dataset) Scan(ctx context.Context, path string, yield func(DirEntry) bool) error {
	return d.readDir(ctx, path, func(e DirEntry) bool {
		return e.Kind != Dir && e.Kind != Regular || yield(e)
	})
}

// full returns a path of the source for messages.
func (d *Dataset) full(path string) string {
	if path == "" {
		return d.store.String()
	}
	return strings.TrimSuffix(d.store.String(), "/") + "/" + path
}

func (d *Dataset) failed(op, path string, err error) error {
	return &fs.PathError{Op: op, Path: d.full(path), Err: err}
}
