package pack

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"prismfs/internal/imagefile"
	"prismfs/l3"
	"prismfs/pcr"
)

// A FileReport describes one L3 file.
type FileReport struct {
	Path            string  `json:"path"`
	Format          string  `json:"format"`  // "l3", or of an image that is not packed "png", "jpeg", …
	Version         int     `json:"version"` // of L3; 0 where the head is damaged: path, size and damage are all that is known then
	Coding          string  `json:"coding"`
	Shape           []int   `json:"shape"` // height, width, channels
	DType           string  `json:"dtype"`
	Colour          string  `json:"colour"`
	SignificantBits int     `json:"significant_bits"`
	PatchEdge       int     `json:"patch_edge"` // pixels
	Patches         int     `json:"patches"`
	FileBytes       int64   `json:"file_bytes"`
	HeadBytes       int64   `json:"head_bytes"`
	RawBytes        int64   `json:"raw_bytes"` // the samples
	Ratio           float64 `json:"ratio"`     // FileBytes / RawBytes
	Checksums       bool    `json:"checksums"`
	PixelCRC        string  `json:"pixel_crc32c,omitempty"`
	Label           *int64  `json:"label"`
	Class           string  `json:"class"`
	OriginalName    string  `json:"original_name"`
	SourceDecoder   string  `json:"source_decoder"`
	ProfileBytes    int     `json:"colour_profile_bytes"`
	// Damage says what is wrong with the file, "" for a file that decodes.
	Damage string `json:"damage"`
}

// A Count is how many samples have something in common.
type Count struct {
	Name    string `json:"name"`
	Samples int    `json:"samples"`
}

// A TreeReport describes the samples of a folder by their heads alone.
type TreeReport struct {
	Path           string    `json:"path"`
	Samples        int       `json:"samples"`
	OtherFiles     int       `json:"other_files"`
	PlainImages    []Count   `json:"plain_images"` // those of the other files that pack left as they are, by format
	FileBytes      int64     `json:"file_bytes"`   // of the samples
	RawBytes       int64     `json:"raw_bytes"`
	Ratio          float64   `json:"ratio"` // FileBytes / RawBytes
	Codings        []Count   `json:"codings"`
	Shapes         []Count   `json:"shapes"` // as height×width×channels dtype
	SourceDecoders []Count   `json:"source_decoders"`
	Classes        []Count   `json:"classes"`         // folders of the first level, bytewise ordered
	Parts          []string  `json:"parts,omitempty"` // their names, where all are called as parts of a dataset are
	WithoutCRC     int       `json:"samples_without_checksums"`
	Unfinished     bool      `json:"unfinished"` // Marker is there: a run is writing, or did not come to its end
	Bad            []Refusal `json:"bad"`        // what is no sample despite its name, and what could not be entered

	UnfinishedBecause string `json:"unfinished_because,omitempty"` // and what to do
}

// A Report describes a file, a folder or a dataset of records; the other fields
// are nil.
type Report struct {
	File *FileReport `json:"file,omitempty"`
	Tree *TreeReport `json:"tree,omitempty"`
	PCR  *PCRReport  `json:"pcr,omitempty"`
}

// Inspect describes the L3 file, the folder of them, or the folder of records at
// path. A single file
// is decoded to see whether it is whole; of those in a folder only the heads
// are read. A file that is no L3 at all, or a folder without anything packed (a
// NotPackedError), is an error that wraps ErrSource; one that is damaged, in its head or elsewhere, is no
// error, and the report says so.
func Inspect(ctx context.Context, path string) (*Report, error) {
	resolved, info, err := statSource(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		inspect := inspectFile
		if isPlainImage(resolved) {
			inspect = inspectPlain
		}
		report, err := inspect(resolved, path)
		if err != nil {
			return nil, err
		}
		return &Report{File: report}, nil
	}
	if holdsPCR(resolved) {
		report, err := inspectPCR(ctx, resolved, path)
		if err != nil {
			return nil, err
		}
		return &Report{PCR: report}, nil
	}
	report, err := inspectTree(ctx, resolved, path)
	if err != nil {
		return nil, err
	}
	return &Report{Tree: report}, nil
}

// statSource resolves the path of a file or folder to look into.
func statSource(path string) (string, fs.FileInfo, error) {
	resolved, err := resolveSource(path)
	if err != nil {
		return "", nil, err
	}
	info, err := os.Stat(resolved)
	switch {
	case err != nil:
		return "", nil, fmt.Errorf("%w: %w", ErrSource, err)
	case !info.IsDir() && !info.Mode().IsRegular():
		return "", nil, fmt.Errorf("%w: %s: %w", ErrSource, Printable(path), specialError(info.Mode().Type()))
	case !info.IsDir() && pcr.IsRecordName(resolved):
		return "", nil, fmt.Errorf("%w: %s is a record of a PCR dataset: name the folder that it lies in", ErrSource, Printable(path))
	}
	return resolved, info, nil
}

func inspectFile(resolved, path string) (*FileReport, error) {
	f, stat, err := openRegular("", resolved)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrSource, Printable(path), err)
	}
	defer f.Close()
	info, err := l3.ReadInfo(f, stat.Size(), l3.Limits{})
	if err != nil {
		prefix, _ := readPrefix(f)
		if l3.IsL3(prefix) {
			// An L3 file whose head is damaged is damaged like any other,
			// only less is known of it.
			return &FileReport{Path: path, Format: "l3", Shape: []int{}, FileBytes: stat.Size(), Damage: err.Error()}, nil
		}
		return nil, fmt.Errorf("%w: %s: %w%s", ErrSource, Printable(path), err, whatItIs(prefix, err))
	}
	report := newFileReport(path, info)
	if _, err := decodeOpen(l3.NewDecoder(l3.Limits{}), &scratch{}, f, stat); err != nil {
		report.Damage = err.Error()
	}
	return report, nil
}

// inspectPlain describes an image that is not packed, which a mount passes on as it is.
// One of a kind that pack refuses is described as what is no L3.
func inspectPlain(resolved, path string) (*FileReport, error) {
	image, size, err := decodePlain(&scratch{}, "", resolved)
	if err == nil && image == nil {
		return inspectFile(resolved, path)
	}
	_, format := plainImage("", resolved, filepath.Base(resolved))
	report := &FileReport{Path: path, Format: string(format), Shape: []int{}}
	if err != nil {
		report.Damage = reasonOf(err)
		return report, nil
	}
	s := image.Shape
	report.Shape, report.DType, report.Colour = []int{s.Height, s.Width, s.Channels}, s.DType.String(), s.Color.String()
	report.SignificantBits, report.SourceDecoder, report.ProfileBytes = image.SignificantBits, image.Decoder, len(image.ColourProfile)
	report.FileBytes, report.RawBytes, report.Ratio = size, s.Bytes(), ratio(size, s.Bytes())
	return report, nil
}

// whatItIs adds the format of an image that is not packed yet to an error.
func whatItIs(prefix []byte, err error) string {
	if format, ok := imagefile.Sniff(prefix[:min(len(prefix), imagefile.SniffBytes)]); ok && errors.Is(err, l3.ErrNotL3) {
		return fmt.Sprintf(" (it is %s; 'prismfs pack' makes L3 of it, or leaves it as it is)", format.Title())
	}
	return ""
}

func newFileReport(path string, info l3.Info) *FileReport {
	r := &FileReport{
		Path: path, Format: "l3", Version: info.Version, Coding: info.Coding.String(),
		Shape: []int{info.Shape.Height, info.Shape.Width, info.Shape.Channels},
		DType: info.Shape.DType.String(), Colour: info.Shape.Color.String(),
		SignificantBits: info.SignificantBits, PatchEdge: info.PatchEdge, Patches: info.Patches,
		FileBytes: info.FileBytes, HeadBytes: info.HeadBytes, RawBytes: info.Shape.Bytes(),
		Ratio:     ratio(info.FileBytes, info.Shape.Bytes()),
		Checksums: info.HasPixelCRC, Label: info.Meta.Label, Class: info.Meta.Class,
		OriginalName: info.Meta.OriginalName, SourceDecoder: info.Meta.SourceDecoder,
		ProfileBytes: len(info.Meta.ColourProfile),
	}
	if info.HasPixelCRC {
		r.PixelCRC = fmt.Sprintf("%08x", info.PixelCRC)
	}
	return r
}

func ratio(a, b int64) float64 {
	if b == 0 {
		return 0
	}
	return float64(a) / float64(b)
}

// treeCounter collects what a TreeReport tells.
type treeCounter struct {
	report                            *TreeReport
	codings, shapes, decoders, labels map[string]int
	plain                             map[string]int
}

func inspectTree(ctx context.Context, resolved, path string) (*TreeReport, error) {
	c := &treeCounter{
		report:  &TreeReport{Path: path, Bad: []Refusal{}, Unfinished: unfinished(resolved), UnfinishedBecause: unfinishedBecause(resolved)},
		codings: map[string]int{}, shapes: map[string]int{}, decoders: map[string]int{}, labels: map[string]int{},
		plain: map[string]int{},
	}
	err := walk(ctx, resolved, func(d *directory) error {
		if d.path == "" {
			for _, class := range d.folders {
				c.labels[class] = 0
			}
		}
		c.report.Bad = append(c.report.Bad, withoutMarker(d.refused)...)
		for _, name := range d.files {
			if err := ctx.Err(); err != nil {
				return err
			}
			c.file(resolved, d, name)
		}
		return nil
	})
	if err != nil {
		return nil, sourceError(err)
	}
	if c.report.Samples == 0 && len(c.report.Bad) == 0 {
		return nil, noSampleError(resolved, path)
	}
	return c.finish(), nil
}

// file counts one file of the tree.
func (c *treeCounter) file(root string, d *directory, name string) {
	if !strings.HasSuffix(name, Suffix) {
		c.report.OtherFiles++
		// What cannot be read is for whoever reads it to complain of.
		if kind, format := plainImage(root, d.join(name), name); kind == anImage {
			c.plain[format.Title()]++
		}
		return
	}
	f, stat, err := openRegular(root, d.join(name))
	if err != nil {
		c.report.Bad = append(c.report.Bad, Refusal{d.join(name), reasonOf(err)})
		return
	}
	defer f.Close()
	info, err := l3.ReadInfo(f, stat.Size(), l3.Limits{})
	if err != nil {
		c.report.Bad = append(c.report.Bad, Refusal{d.join(name), reasonOf(err)})
		return
	}
	r := c.report
	r.Samples++
	r.FileBytes += info.FileBytes
	r.RawBytes += info.Shape.Bytes()
	c.codings[fmt.Sprintf("version %d, %v", info.Version, info.Coding)]++
	c.shapes[fmt.Sprintf("%d×%d×%d %v", info.Shape.Height, info.Shape.Width, info.Shape.Channels, info.Shape.DType)]++
	c.decoders[decoderName(info)]++
	if class, _, ok := strings.Cut(d.join(name), "/"); ok {
		c.labels[class]++
	}
	if !info.HasPixelCRC {
		r.WithoutCRC++
	}
}

func (c *treeCounter) finish() *TreeReport {
	r := c.report
	r.Ratio = ratio(r.FileBytes, r.RawBytes)
	r.Codings, r.Shapes, r.SourceDecoders = counts(c.codings), counts(c.shapes), counts(c.decoders)
	r.Classes, r.PlainImages = counts(c.labels), counts(c.plain)
	sort.Slice(r.Classes, func(i, j int) bool { return r.Classes[i].Name < r.Classes[j].Name })
	var names []string
	for _, c := range r.Classes {
		names = append(names, c.Name)
	}
	r.Parts = splitFolders(names)
	sort.Slice(r.Bad, func(i, j int) bool { return r.Bad[i].Path < r.Bad[j].Path })
	return r
}

// decoderName is the library whose pixels a file holds.
func decoderName(info l3.Info) string {
	if info.Meta.SourceDecoder == "" {
		return "not recorded"
	}
	return info.Meta.SourceDecoder
}

// counts orders a map by number, the most first, then by name.
func counts(m map[string]int) []Count {
	out := make([]Count, 0, len(m))
	for name, n := range m {
		out = append(out, Count{name, n})
	}
	sort.Slice(out, func(i, j int) bool {
		if out[i].Samples != out[j].Samples {
			return out[i].Samples > out[j].Samples
		}
		return out[i].Name < out[j].Name
	})
	return out
}

// withoutMarker leaves out the refusals of pack's own files, which are reported
// as an unfinished run.
func withoutMarker(refusals []Refusal) []Refusal {
	var out []Refusal
	for _, r := range refusals {
		if !reserved(filepath.Base(r.Path)) {
			out = append(out, r)
		}
	}
	return out
}

// sourceError wraps an error of the file system in ErrSource; those of the
// context stay as they are.
func sourceError(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrSource, err)
}
