package pack

import (
	"context"
	"sort"

	"prismfs/dataset"
)

// A PCRReport describes a folder of records by its index and the metadata of the
// records alone.
type PCRReport struct {
	Path      string `json:"path"`
	Format    string `json:"format"` // "pcr"
	Index     string `json:"index"`  // its file name; "" where there is none, and the records were walked
	Records   int    `json:"records"`
	Images    int    `json:"images"` // that a mount shows
	Levels    int    `json:"levels"` // the most scan groups of a record
	FileBytes int64  `json:"file_bytes"`

	Labels     []PCRLabel `json:"labels"`     // ascending
	Fidelities []Fidelity `json:"fidelities"` // k = 1 first

	WithoutCRC      int       `json:"images_without_checksums"` // those not shown included
	RepeatedEntries int       `json:"repeated_index_entries"`
	RepeatedImages  int       `json:"repeated_images"` // of the last record; mounts show them with --keep-duplicates only
	Stale           []string  `json:"stale_records"`   // that the index does not name
	Damaged         []Refusal `json:"damaged"`         // records of which images may be unreadable
	Bad             []Refusal `json:"bad"`             // records and entries of the index of which nothing is shown
	Unfinished      bool      `json:"unfinished"`      // a run of pack is writing, or did not come to its end

	UnfinishedBecause string `json:"unfinished_because,omitempty"` // and what to do

	Table      string  `json:"table"` // where the offsets of images are kept, "" for nowhere
	TableBytes int64   `json:"table_bytes"`
	TableFull  float64 `json:"table_full"` // share of the offsets that is known already

	Quality *QualityCurve `json:"quality,omitempty"`
}

// A PCRLabel is a label of a dataset.
type PCRLabel struct {
	Label  int    `json:"label"`
	Folder string `json:"folder"` // that a mount shows
	Class  string `json:"class"`  // "" where the records do not tell
	Images int    `json:"images"`
}

// A Fidelity is what the images of a dataset cost at a fidelity.
type Fidelity struct {
	K         int     `json:"k"`
	MeanBytes float64 `json:"mean_bytes"` // of groups 1 to K, an image
	Share     float64 `json:"share"`      // of the bytes of all groups
}

// inspectPCR describes a folder of records.
func inspectPCR(ctx context.Context, resolved, path string) (*PCRReport, error) {
	folder, err := openPCRImages(ctx, resolved, "")
	if err != nil {
		return nil, err
	}
	defer folder.Close()
	s := folder.summary
	r := &PCRReport{
		Path: path, Format: "pcr", Index: s.Index, Records: s.Records, Images: s.Images, Levels: s.Levels,
		WithoutCRC: folder.withoutChecksums(), RepeatedEntries: s.RepeatedEntries, RepeatedImages: s.RepeatedImages,
		Labels: []PCRLabel{}, Stale: append([]string{}, s.Stale...), Damaged: folder.damaged(), Bad: folder.bad(),
		Unfinished: folder.unfinished != "", UnfinishedBecause: folder.unfinished, Table: s.Table, TableBytes: s.TableBytes, TableFull: s.TableFull,
	}
	for _, l := range s.Labels {
		r.Labels = append(r.Labels, PCRLabel{l.Label, l.Folder, l.Class, l.Images})
	}
	sort.Strings(r.Stale)
	r.Fidelities = fidelities(s)
	r.FileBytes = s.MetadataBytes
	for _, n := range s.GroupBytes {
		r.FileBytes += n
	}
	return r, nil
}

// fidelities adds the groups up. The images that are not shown are in the groups,
// too.
func fidelities(s *dataset.PCRSummary) []Fidelity {
	images := float64(s.Images + s.RepeatedImages + s.RefusedImages)
	all := int64(0)
	for _, n := range s.GroupBytes {
		all += n
	}
	list := []Fidelity{}
	sum := int64(0)
	for i, n := range s.GroupBytes {
		sum += n
		f := Fidelity{K: i + 1, Share: ratio(sum, all)}
		if images > 0 {
			f.MeanBytes = float64(sum) / images
		}
		list = append(list, f)
	}
	return list
}
