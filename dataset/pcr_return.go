package dataset

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// This file has records come back that were lost: whose content could not be used, since
// they were being copied, say, or that could not be read. Nothing in their folder changes
// when they are whole. Records that are not there at all come back with a change of it.

const (
	// maxWatched bounds the lost records of a folder that are looked at again, each
	// with a request to the store every recheckAfter while somebody reads the folder.
	// Who copies more of them is found out by these.
	maxWatched = 64

	// retryFirst and retryAfter are how long a folder is left as it is, at least, of
	// which a record could not be read: longer each time that it cannot be again.
	retryFirst = recheckAfter
	retryAfter = 30 * time.Second

	// tickOfStore is how long a folder can change without its times telling so: the
	// clock of file systems before Linux 6.13 goes in steps of up to 10 ms. One whose
	// times are further ahead than maxAhead has another clock than this machine.
	tickOfStore = 20 * time.Millisecond
	maxAhead    = 2 * time.Second
)

// watched is a lost record.
type watched struct {
	name   string
	id     Identity // as it was when it was found lost
	latest Identity // when it was looked at again
	unread bool     // it could not be read, whatever its content
}

// watch has the lost records of a folder looked at again.
func (f *pcrFolder) watch(files *folderFiles) {
	f.watched = nil
	for _, b := range f.notes.Bad {
		_, unseen := files.unseen[b.Name]
		info, there := files.infos[b.Name]
		if len(f.watched) < maxWatched && (there || unseen) {
			unread := unseen || slices.Contains(f.unreadable, b.Name)
			f.watched = append(f.watched, watched{name: b.Name, id: info.ID, latest: info.ID, unread: unread})
		}
	}
}

// lostRecordsReturn reports whether a lost record has another content, and nobody has
// written to it since it was last looked at, or can be read now.
func (d *Dataset) lostRecordsReturn(ctx context.Context, f *pcrFolder) bool {
	for i := range f.watched {
		w := &f.watched[i]
		info, err := d.store.Stat(ctx, join(f.path, w.name))
		switch {
		case err != nil:
			continue
		case w.unread && time.Since(f.loaded) >= f.patience && d.canBeRead(ctx, join(f.path, w.name)):
			return true
		case info.ID != w.id && info.ID == w.latest:
			return true
		}
		w.latest = info.ID
	}
	return false
}

// canBeRead tries whether a file can be read, as far as its first byte tells.
func (d *Dataset) canBeRead(ctx context.Context, path string) bool {
	file, err := d.store.Open(ctx, path)
	if err != nil {
		return false
	}
	defer file.Close()
	var first [1]byte
	_, err = file.ReadAt(first[:], 0)
	return err == nil || errors.Is(err, io.EOF)
}

// beSoPatient sets how long a folder of which records could not be read is left alone
// after it was looked into, by how long that was before.
func (f *pcrFolder) beSoPatient(before *pcrFolder) {
	switch {
	case !f.unread:
	case before == nil || !before.unread:
		f.patience = retryFirst
	default:
		f.patience = min(2*before.patience, retryAfter)
	}
}

// tellOfReturn writes to the log what has come back since the folder was looked into.
func (s *folderState) tellOfReturn(f *pcrFolder) {
	lost := len(f.notes.Missing) + len(f.notes.Bad)
	for _, r := range f.records {
		if r.Damage != "" {
			lost++
		}
	}
	if s.gone {
		f.d.log.Info("a dataset is back", "folder", f.d.full(f.path), "records", len(f.records))
	} else if s.incomplete && lost == 0 && s.onlyIndex {
		f.d.log.Info("the index of a dataset is read again", "index", f.d.full(join(f.path, f.index)), "records", len(f.records))
	} else if s.incomplete && lost == 0 {
		f.d.log.Info("records that were missing or damaged are back", "folder", f.d.full(f.path), "records", len(f.records))
	}
	s.gone, s.incomplete = false, lost > 0
	s.onlyIndex = lost == 1 && len(f.notes.Bad) == 1 && f.notes.Bad[0].Name == f.index
}

// isSettled reports whether a change of a folder from now on would change its identity.
func isSettled(id Identity, now time.Time) bool {
	age := time.Duration(now.UnixNano() - max(id.MTimeNS, id.CTimeNS))
	return age >= tickOfStore || age <= -maxAhead
}

// storeFailures are what a store says that is out of order or out of reach, and that
// says nothing of the path.
var storeFailures = []error{
	unix.EIO, unix.ESTALE, unix.ENOTCONN, unix.ETIMEDOUT, unix.EREMOTEIO, unix.EHOSTDOWN,
	unix.EHOSTUNREACH, unix.ENETDOWN, unix.ENETUNREACH, unix.ECONNABORTED, unix.ESHUTDOWN,
}

func storeFails(err error) bool {
	return slices.ContainsFunc(storeFailures, func(failure error) bool { return errors.Is(err, failure) })
}
