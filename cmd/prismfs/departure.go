package main

import (
	"errors"
	"time"

	"prismfs/fs"
)

// departure is how signals end a mount. The first one unmounts; if files are open the
// mount stays, or, with linger, is detached: it vanishes, and the files stay readable
// for so long. Without linger the second signal detaches, for as long as files are
// open. A signal after that ends the process, and with it what is still read.
type departure struct {
	mounted  *fs.Mounted
	linger   time.Duration
	refused  bool // a signal found it busy
	detached bool
	over     <-chan time.Time // when linger is over
}

// signalled carries out a signal, and says whether the process is to end now.
func (d *departure) signalled() (end bool) {
	if d.detached {
		return true
	}
	err := d.mounted.Unmount()
	switch {
	case err == nil:
		return d.mounted.HandedOver() // who mounted it unmounts it
	case !errors.Is(err, fs.ErrDetached) && !d.refused && d.linger == 0:
		d.mounted.Logger().Warn("still mounted; a second signal detaches it", "error", err)
		d.refused = true
		return false
	case !errors.Is(err, fs.ErrDetached):
		if err := d.mounted.Detach(); err != nil {
			d.mounted.Logger().Warn("still mounted", "error", err)
			return false
		}
	}
	d.detached = true
	if d.linger > 0 {
		d.over = time.After(d.linger)
		d.mounted.Logger().Info("the mount is detached; this process ends when what is open there is closed, or with its time", "linger", d.linger)
	} else {
		d.mounted.Logger().Info("the mount is detached; this process ends when what is open there is closed, or by another signal")
	}
	return false
}

// end leaves whoever still reads.
func (d *departure) end() error {
	d.mounted.Logger().Warn("files of the detached mount were still in use; reads that need this process fail from now on. Decoded files that were open in the passthrough class can be read to their end")
	d.mounted.Abandon()
	return nil
}
