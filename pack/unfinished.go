package pack

import (
	"os"
	"path/filepath"

	"prismfs/dataset"
)

// What is said of folders whose content is not all that it is to be.
const (
	unfinishedRun = "a run of pack is writing here, or was ended before it was done: give the same command again to go on"
	noIndexYet    = "the records were made by pack and have no index, which it writes last: images may be missing; give the command again that packed them"
)

// unfinished tells whether a run is writing into a folder, or did not come to its
// end.
func unfinished(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, Marker))
	return err == nil
}

// unfinishedBecause says why the L3 files in a folder are not all of a dataset,
// "" if nothing tells that they are not.
func unfinishedBecause(dir string) string {
	if unfinished(dir) {
		return unfinishedRun
	}
	return ""
}

// recordsUnfinished is unfinishedBecause for a folder of records.
func recordsUnfinished(s *dataset.PCRSummary, dir string) string {
	switch {
	case unfinished(dir):
		return unfinishedRun
	case s.Unfinished:
		return noIndexYet
	}
	return ""
}
