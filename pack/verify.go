package pack

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sort"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"prismfs/internal/imagefile"
	"prismfs/l3"
)

// VerifyOptions say how Verify works. The zero value is good.
type VerifyOptions struct {
	Jobs int // files at a time; 0: as many as there are processors
	// Progress, unless nil, is called after every file, never twice at once.
	// The total is 0 until it is known.
	Progress func(done, total int)
}

// A Verification is the result of Verify: Samples = Good + len(Bad) - BadRecords counts
// files by the suffix of L3 (or the one file given), images that pack left as
// they are, what could not be entered, and images of records.
type Verification struct {
	Path           string    `json:"path"`
	Samples        int       `json:"samples"`
	Good           int       `json:"good"`
	WithoutCRC     int       `json:"good_without_checksums"` // published files: they are complete and consistent
	PlainImages    int       `json:"good_plain_images"`      // left as they are by pack: they can be decoded
	OtherFiles     int       `json:"other_files"`            // not looked into
	FileBytes      int64     `json:"file_bytes"`
	RawBytes       int64     `json:"raw_bytes"`
	SourceDecoders []Count   `json:"source_decoders"`         // which library, and version, the pixels came from
	Records        int       `json:"records,omitempty"`       // PCR
	BadRecords     int       `json:"bad_records,omitempty"`   // of Bad, those that are a record or an index and no image
	StaleRecords   int       `json:"stale_records,omitempty"` // that the index does not name; not looked into
	Unfinished     bool      `json:"unfinished"`              // a run of pack is writing, or did not come to its end
	Bad            []Refusal `json:"bad"`                     // ordered by path
	Seconds        float64   `json:"seconds"`

	UnfinishedBecause string `json:"unfinished_because,omitempty"` // and what to do
}

// Verify decodes the L3 file or plain image at path, or every L3 file in the folder and
// the images beside them, or every image of a folder of records at full fidelity, and
// checks every checksum. Files that are bad are listed in the result and are no
// error; errors are those of the path, of a folder without anything packed (a
// NotPackedError), or the context's. Folders of records below the one at path are
// not looked into: see Datasets.
func Verify(ctx context.Context, path string, opt VerifyOptions) (*Verification, error) {
	resolved, info, err := statSource(path)
	if err != nil {
		return nil, err
	}
	if opt.Jobs <= 0 {
		opt.Jobs = runtime.GOMAXPROCS(0)
	}
	v := &verifier{
		result:   &Verification{Path: path, Bad: []Refusal{}},
		progress: opt.Progress,
		decoders: map[string]int{},
	}
	start := time.Now()
	if info.IsDir() && holdsPCR(resolved) {
		return verifyPCR(ctx, resolved, path, opt)
	}
	if info.IsDir() {
		if err := requireSample(ctx, resolved, path); err != nil {
			return nil, err
		}
		v.result.Unfinished, v.result.UnfinishedBecause = unfinished(resolved), unfinishedBecause(resolved)
		err = v.tree(ctx, resolved, opt.Jobs)
	} else {
		v.file(resolved, path)
	}
	if err != nil {
		return nil, sourceError(err)
	}
	if v.packed == 0 && info.IsDir() {
		return nil, noSampleError(resolved, path)
	}
	v.result.SourceDecoders = counts(v.decoders)
	sort.Slice(v.result.Bad, func(i, j int) bool { return v.result.Bad[i].Path < v.result.Bad[j].Path })
	v.result.Seconds = time.Since(start).Seconds()
	return v.result, nil
}

type verifier struct {
	mu       sync.Mutex
	result   *Verification
	decoders map[string]int
	progress func(done, total int)
	total    int // of files and what cannot be entered, once they are counted
	done     int // of total
	packed   int // of the samples, those that are L3 or should be
}

// scratch is memory that a job reuses.
type scratch struct{ file, pixels []byte }

// tree verifies all samples of a folder with several jobs.
func (v *verifier) tree(ctx context.Context, root string, jobs int) error {
	paths := make(chan string, 4*jobs)
	group, ctx := errgroup.WithContext(ctx)
	if v.progress != nil {
		group.Go(func() error { return v.count(ctx, root) })
	}
	group.Go(func() error {
		defer close(paths)
		return walk(ctx, root, func(d *directory) error { return v.enqueue(ctx, d, paths) })
	})
	for range jobs {
		group.Go(func() error {
			decoder, mem := l3.NewDecoder(l3.Limits{}), &scratch{}
			for path := range paths {
				if err := ctx.Err(); err != nil {
					return err
				}
				if strings.HasSuffix(path, Suffix) {
					v.check(decoder, mem, root, path, path)
				} else {
					v.checkPlain(mem, root, path)
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// count finds the number of files, for the progress.
func (v *verifier) count(ctx context.Context, root string) error {
	n := 0
	err := walk(ctx, root, func(d *directory) error {
		n += len(withoutMarker(d.refused)) + len(d.files)
		return nil
	})
	v.mu.Lock()
	defer v.mu.Unlock()
	v.total = n
	return err
}

// enqueue hands out the files of a folder.
func (v *verifier) enqueue(ctx context.Context, d *directory, paths chan<- string) error {
	for _, r := range withoutMarker(d.refused) {
		v.bad(r.Path, r.Reason, true)
	}
	for _, name := range d.files {
		select {
		case paths <- d.join(name):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// file verifies a file that was named: a plain image counts as it does in a folder.
func (v *verifier) file(path, shown string) {
	mem := &scratch{}
	if isPlainImage(path) {
		image, size, err := decodePlain(mem, "", path)
		if err != nil || image != nil {
			v.plain(shown, image, size, err)
			return
		}
	}
	v.check(l3.NewDecoder(l3.Limits{}), mem, "", path, shown)
}

// isPlainImage reports whether a file is an image and is not named as packed.
func isPlainImage(path string) bool {
	kind, _ := plainImage("", path, filepath.Base(path))
	return kind == anImage && !strings.HasSuffix(path, Suffix)
}

// check verifies the file at root/path and reports it under the name shown.
func (v *verifier) check(decoder *l3.Decoder, mem *scratch, root, path, shown string) {
	info, err := decodeFile(decoder, mem, root, path)
	if err != nil {
		v.bad(shown, reasonOf(err), true)
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	r := v.result
	v.packed++
	r.Samples++
	r.Good++
	r.FileBytes += info.FileBytes
	r.RawBytes += info.Shape.Bytes()
	if !info.HasPixelCRC {
		r.WithoutCRC++
	}
	v.decoders[decoderName(info)]++
	v.step()
}

// checkPlain verifies an image that is not packed, and leaves other files alone.
func (v *verifier) checkPlain(mem *scratch, root, path string) {
	image, size, err := decodePlain(mem, root, path)
	v.plain(path, image, size, err)
}

// plain counts what decodePlain gave.
func (v *verifier) plain(path string, image *imagefile.Decoded, size int64, err error) {
	switch {
	case err != nil:
		v.bad(path, reasonOf(err), false)
		return
	case image == nil:
		v.mu.Lock()
		defer v.mu.Unlock()
		v.result.OtherFiles++
		v.step()
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	r := v.result
	r.Samples++
	r.Good++
	r.PlainImages++
	r.FileBytes += size
	r.RawBytes += image.Bytes()
	v.decoders[image.Decoder]++
	v.step()
}

// bad counts a bad file, one that is L3 or should be if packed is set.
func (v *verifier) bad(path, reason string, packed bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if packed {
		v.packed++
	}
	v.result.Samples++
	v.result.Bad = append(v.result.Bad, Refusal{path, reason})
	v.step()
}

func (v *verifier) step() {
	if v.done++; v.progress != nil {
		v.progress(v.done, v.total)
	}
}

// decodeFile reads and decodes an L3 file.
func decodeFile(decoder *l3.Decoder, mem *scratch, root, path string) (l3.Info, error) {
	f, stat, err := openRegular(root, path)
	if err != nil {
		return l3.Info{}, err
	}
	defer f.Close()
	return decodeOpen(decoder, mem, f, stat)
}

// decodeOpen decodes an open L3 file into mem.pixels. The head is read first,
// so that what is no L3 file is not read at all.
func decodeOpen(decoder *l3.Decoder, mem *scratch, f *os.File, stat fs.FileInfo) (l3.Info, error) {
	if _, err := l3.ReadInfo(f, stat.Size(), l3.Limits{}); err != nil {
		return l3.Info{}, err
	}
	data, err := readWhole(f, stat, mem.file)
	mem.file = data
	if err != nil {
		return l3.Info{}, err
	}
	info, pixels, err := decodeL3(decoder, data, mem.pixels)
	mem.pixels = pixels
	return info, err
}

// plainImage tells what a file without the suffix of L3 is.
func plainImage(root, path, name string) (content, imagefile.Format) {
	f, _, err := openRegular(root, path)
	if err != nil {
		return noImage, ""
	}
	defer f.Close()
	prefix, err := readPrefix(f)
	if err != nil {
		return noImage, ""
	}
	return judge(name, prefix)
}

// decodePlain decodes the image in a file without the suffix of L3; one that
// holds no image gives nil, as does one of a kind that pack would have refused:
// it has come there in another way.
func decodePlain(mem *scratch, root, path string) (*imagefile.Decoded, int64, error) {
	if kind, _ := plainImage(root, path, filepath.Base(path)); kind != anImage {
		return nil, 0, nil
	}
	f, stat, err := openRegular(root, path)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	data, err := readWhole(f, stat, mem.file)
	mem.file = data
	if err != nil {
		return nil, 0, err
	}
	image, err := imagefile.Decode(data, imagefile.Limits{MaxPixels: MaxPixelsLimit})
	if errors.Is(err, imagefile.ErrUnsupported) {
		return nil, 0, nil
	}
	return image, stat.Size(), err
}
