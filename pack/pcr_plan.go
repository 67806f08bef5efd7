package pack

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"prismfs/pcr"
)

// A pcrSource is a file of the source that is to become an image of a record.
type pcrSource struct {
	label int32  // place of its class in pcrPlan.classes
	name  string // relative to the class folder
}

// A pcrPlan is what a run does, by names alone: which images go into records
// in which order, and what becomes of everything else.
type pcrPlan struct {
	classes []string // by label: as ImageFolder orders the folders of the first level
	sources []pcrSource
	others  []string // files beside the class folders that are copied
	refused []Refusal
}

// path returns where a source is, relative to the tree.
func (p *pcrPlan) path(s pcrSource) string { return p.classes[s.label] + "/" + s.name }

// files is how many files find an outcome.
func (p *pcrPlan) files() int { return len(p.sources) + len(p.others) + len(p.refused) }

// planPCR looks at every file of a source. Images are ordered by class and
// path; shuffling comes later.
func planPCR(ctx context.Context, source string) (*pcrPlan, error) {
	if err := checkClassNames(source); err != nil {
		return nil, err
	}
	p := &pcrPlan{}
	var labels map[string]int64
	err := walk(ctx, source, func(d *directory) error {
		if d.path == "" {
			labels = ranks(d.folders)
			p.classes = make([]string, len(labels))
			for class, label := range labels {
				p.classes[label] = class
			}
			p.root(source, d, labels)
			return nil
		}
		class, below, _ := strings.Cut(d.path, "/")
		p.refused = append(p.refused, d.refused...)
		for _, name := range d.files {
			if err := ctx.Err(); err != nil {
				return err
			}
			if reason := leftOutOfRecords(source, d.join(name), name); reason != "" {
				p.refused = append(p.refused, Refusal{d.join(name), reason})
				continue
			}
			if below != "" {
				name = below + "/" + name
			}
			p.sources = append(p.sources, pcrSource{int32(labels[class]), name})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	sort.Slice(p.sources, func(i, j int) bool { return p.sources[i].less(p.sources[j]) })
	return p, nil
}

// checkClassNames refuses classes whose folders would be taken for something else
// beside the records.
func checkClassNames(source string) error {
	entries, err := os.ReadDir(source)
	if err != nil {
		return err
	}
	var taken []string
	for _, e := range entries {
		if !recordsName(e.Name()) {
			continue
		}
		if info, err := os.Stat(filepath.Join(source, e.Name())); err == nil && info.IsDir() {
			taken = append(taken, e.Name())
		}
	}
	if len(taken) > 0 {
		return fmt.Errorf("classes have names that records (*.pcr), their index or files of prismfs (%s*) have in the destination: rename %s",
			ownPrefix, list(taken))
	}
	return nil
}

// root judges what lies beside the class folders.
func (p *pcrPlan) root(source string, d *directory, labels map[string]int64) {
	for _, r := range d.refused {
		if _, ok := labels[r.Path]; ok {
			r.Reason += emptyClass
		}
		p.refused = append(p.refused, r)
	}
	for _, name := range d.files {
		c, err := judgeFile(source, name, name)
		switch {
		case err != nil:
			p.refused = append(p.refused, Refusal{name, reasonOf(err)})
		case c == anImage:
			p.refused = append(p.refused, Refusal{name, "it lies beside the class folders, and every image of a record has a class: put it into a folder"})
		case c.reason() != "":
			p.refused = append(p.refused, Refusal{name, c.reason()})
		case pcr.IsRecordName(name) || name == pcr.IndexNamePB || name == pcr.IndexNameSQLite:
			p.refused = append(p.refused, Refusal{name, "its name is one that records and their index have in the destination"})
		default:
			p.others = append(p.others, name)
		}
	}
}

// leftOutOfRecords returns why a file of a class folder is no image of a record,
// "" for one that is or claims to be by its name: whether that can be read is
// found when its turn comes.
func leftOutOfRecords(source, path, name string) string {
	if claimsImage(name) {
		return ""
	}
	switch c, err := judgeFile(source, path, name); {
	case err != nil:
		return reasonOf(err)
	case c == anImage:
		return ""
	case c == anL3:
		return "it is an L3 file: restore its image by 'prismfs unpack' first"
	case c.reason() != "":
		return c.reason()
	}
	return "it is no image, and a record holds nothing else"
}

// shuffle orders the images by chance, the same for the same seed.
func (p *pcrPlan) shuffle(seed uint64) {
	rng := rand.New(rand.NewPCG(seed, shuffleStream))
	rng.Shuffle(len(p.sources), func(i, j int) { p.sources[i], p.sources[j] = p.sources[j], p.sources[i] })
}

// shuffleStream is the second half of the generator's seed. Datasets are packed
// in the order that it gives: it never changes.
const shuffleStream = 0x70636f72646572

// emptyClass is said of classes that cannot be entered.
const emptyClass = " (the class stays as an empty folder, at which ImageFolder stops: without it the labels of other classes could shift)"

// A stamp is what tells that a file has not been touched.
type stamp struct {
	size  int64
	mtime int64 // ns since 1970
}

func stampOf(info fs.FileInfo) stamp { return stamp{info.Size(), info.ModTime().UnixNano()} }

// stampAt is the stamp of a file of the source, zero for one that is not there.
func stampAt(path string) stamp {
	info, err := os.Stat(path)
	if err != nil {
		return stamp{}
	}
	return stampOf(info)
}

// classList is what each record says of the labels.
func (p *pcrPlan) classList() []pcr.Class {
	list := make([]pcr.Class, 0, len(p.classes))
	for label, name := range p.classes {
		list = append(list, pcr.Class{Label: int32(label), Name: name})
	}
	return list
}

// sourceHash identifies what a record is made from: the sources in its part of
// the plan, those included that were refused, and the options that change its
// bytes. It is never 0, which stands for an unknown one.
func (p *pcrPlan) sourceHash(sources []pcrSource, stamps []stamp, opt PCROptions) uint64 {
	h := sha256.New()
	fmt.Fprintf(h, "pcr 1 %d %d %d\n", opt.ImagesPerRecord, opt.Quality, opt.MaxPixels)
	var numbers [24]byte
	for i, s := range sources {
		fmt.Fprintf(h, "%d %d %s/%s\n", len(p.classes[s.label]), len(s.name), p.classes[s.label], s.name)
		binary.LittleEndian.PutUint64(numbers[0:], uint64(s.label))
		binary.LittleEndian.PutUint64(numbers[8:], uint64(stamps[i].size))
		binary.LittleEndian.PutUint64(numbers[16:], uint64(stamps[i].mtime))
		h.Write(numbers[:])
	}
	return max(1, binary.LittleEndian.Uint64(h.Sum(nil)))
}

// datasetID identifies the folder that a dataset was packed from, so that the
// records of another one are not taken for older outputs. It is never 0.
func datasetID(source string) uint64 {
	sum := sha256.Sum256([]byte("prismfs pcr " + source))
	return max(1, binary.LittleEndian.Uint64(sum[:]))
}
