package fs

import (
	iofs "io/fs"

	"prismfs/dataset"
)

// access says who may read what several files and folders hold together: whoever
// may read each of them. The kernel holds the mode of a shard against its owner,
// as it does with files of the source.
type access struct {
	mode     iofs.FileMode // the three read bits
	known    bool          // there is an owner
	uid, gid uint32
	// Where owners differ, what their owner may is not what the one of another
	// may: it counts what all others may.
	uids, gids bool
}

const (
	readBits  iofs.FileMode = 0o444
	enterBits iofs.FileMode = 0o111
)

func fullAccess() access { return access{mode: readBits} }

// accessOf is who may read a file.
func accessOf(info dataset.Info) access {
	return access{mode: info.Mode & readBits, known: true, uid: info.UID, gid: info.GID}
}

// folderAccess is who may list a folder and enter it.
func folderAccess(info dataset.Info) access {
	a := accessOf(info)
	a.mode &= info.Mode & enterBits << 2
	return a
}

// add narrows a to those whom b has, too.
func (a *access) add(b access) {
	a.mode &= b.mode
	switch {
	case !b.known:
	case !a.known:
		a.known, a.uid, a.gid, a.uids, a.gids = true, b.uid, b.gid, b.uids, b.gids
	default:
		a.uids = a.uids || b.uids || a.uid != b.uid
		a.gids = a.gids || b.gids || a.gid != b.gid
		a.uid, a.gid = min(a.uid, b.uid), min(a.gid, b.gid)
	}
}

// bits returns the mode of a file that these may read, whose owner and group are
// those of one of the files.
func (a access) bits() iofs.FileMode {
	mode := a.mode
	if a.uids && mode&0o004 == 0 {
		mode &^= 0o400
	}
	if a.gids && mode&0o004 == 0 {
		mode &^= 0o040
	}
	return mode
}
