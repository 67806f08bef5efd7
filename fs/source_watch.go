package fs

import (
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"prismfs/dataset"
)

const (
	// sourceInterval is how often it is looked whether the source folder is there.
	sourceInterval = time.Second
	// patientLooks is how many looks in a row have to fail before that is said of a file
	// system that fails, which may be over at the next.
	patientLooks = 3
)

// sourceFolder is the folder of a source that can go and come back.
type sourceFolder interface {
	Root() error
	Reopen() error
}

// sourceWatch tells of the source folder when it goes and when it is back: readers see
// names that do not exist, and their owner would look for a reason in vain.
type sourceWatch struct {
	folder sourceFolder
	log    *slog.Logger
	name   string
	failed int  // looks in a row
	gone   bool // the log says so
	state  *lostSource
}

// lostSource says for whoever asks why the source folder is gone, if it is.
type lostSource struct{ text atomic.Pointer[string] }

// why returns "" while the folder is there.
func (l *lostSource) why() string {
	if text := l.text.Load(); text != nil {
		return *text
	}
	return ""
}

func (l *lostSource) set(why string) { l.text.Store(&why) }

// watchSource looks after the source folder until the mount is gone.
func (m *mount) watchSource(folder sourceFolder) {
	w := &sourceWatch{folder: folder, log: m.log, name: m.opt.Source, state: &m.gone}
	ticker := time.NewTicker(sourceInterval)
	defer ticker.Stop()
	for {
		select {
		case <-m.closing:
			return
		case <-ticker.C:
			w.look()
		}
	}
}

// look looks once. A folder that was removed is opened again as soon as there is another
// one in its place.
func (w *sourceWatch) look() {
	err := w.folder.Root()
	removed := errors.Is(err, dataset.ErrRemoved)
	if removed && w.folder.Reopen() == nil {
		w.gone = true // in less than a second; that it is another one is worth a line
		err = nil
	}
	if err == nil {
		if w.gone {
			w.log.Info("the source folder is back", "source", w.name)
			w.state.set("")
		}
		w.failed, w.gone = 0, false
		return
	}
	w.failed++
	if w.gone || !removed && w.failed < patientLooks {
		return
	}
	w.gone = true
	w.state.set(fmt.Sprintf("%v: %s", err, w.remedy(removed)))
	w.log.Error("the source folder is gone", "source", w.name, "error", err, "remedy", w.remedy(removed))
}

func (w *sourceWatch) remedy(removed bool) string {
	if removed {
		return "a folder that is made in its place, on the same disk, is shown at once; for any other one unmount, and mount again"
	}
	return "see to its disk or network; what can be read again is shown at once; if its file system was mounted anew, unmount this one and mount again"
}
