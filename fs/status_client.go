package fs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// statusWait is how long a daemon may take to say how it is. It answers from
// memory.
const statusWait = 2 * time.Second

// Statuses lists the mounts of this user, of all users for root, by mount point:
// those that are seen here, and those of namespaces that are not. It takes no longer
// than a few seconds, whatever state they are in.
func Statuses(ctx context.Context) ([]Status, error) {
	mounts, err := ownMounts()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, statusWait)
	defer cancel()
	// Mounts are found by their sockets first: asking those cannot hang.
	asked := askAll(ctx, records())
	// The living come first: numbers of devices are used again.
	slices.SortStableFunc(asked, func(a, b Status) int { return cmp.Compare(rank(a), rank(b)) })
	var list []Status
	for _, r := range asked {
		at := slices.IndexFunc(mounts, func(e mountEntry) bool { return belongs(e, r) })
		switch {
		case at >= 0:
			r.Mountpoint, r.Detached = mounts[at].mountpoint, false // moved, if it says that it is detached
			mounts = slices.Delete(mounts, at, at+1)
		case r.State == StateDead:
			continue // a crash has left its socket, and somebody has unmounted
		default:
			r.Elsewhere = !r.Detached
		}
		list = append(list, r)
	}
	list = joinFound(list, lookAtAll(ctx, mounts))
	slices.SortFunc(list, func(a, b Status) int { return cmp.Or(cmp.Compare(a.Mountpoint, b.Mountpoint), a.PID-b.PID) })
	return list, nil
}

// StatusesAt returns those of a list that are of the mounts at given mount points, in
// their order. It is an error if one of them is not there.
func StatusesAt(list []Status, mountpoints []string) ([]Status, error) {
	var out []Status
	for _, path := range mountpoints {
		abs, err := resolveParent(path)
		if err != nil {
			return nil, &MountError{Mountpoint: path, Looking: true, Reason: reasonOf(err, ReasonNotMounted), Err: err}
		}
		at := slices.IndexFunc(list, func(s Status) bool { return s.Mountpoint == abs && !s.Elsewhere && !s.Detached })
		if at < 0 {
			why := "no mount of yours is there"
			if slices.ContainsFunc(list, func(s Status) bool { return s.Mountpoint == abs && s.Detached }) {
				why += "; one that was is detached, and ends when its last open file is closed"
			}
			return nil, &MountError{Mountpoint: abs, Looking: true, Reason: ReasonNotMounted, Err: errors.New(why)}
		}
		out = append(out, list[at])
	}
	return out, nil
}

func rank(s Status) int {
	return slices.Index([]State{StateServing, StateNoSource, StateNoAnswer, StateDead}, s.State)
}

// belongs reports whether a mount is the one that a daemon has told of. One that
// does not speak any more may have been followed by another.
func belongs(e mountEntry, s Status) bool {
	return e.device == s.device && e.source == s.Source && (s.State.Answers() || e.mountpoint == s.Mountpoint)
}

// ownMounts lists the mounts of this namespace that are the user's; root's are
// all.
func ownMounts() ([]mountEntry, error) {
	all, err := mounts()
	if err != nil {
		return nil, err
	}
	user := os.Getuid()
	return slices.DeleteFunc(all, func(e mountEntry) bool {
		return e.fsType != fsType || user != 0 && e.user != user
	}), nil
}

// records reads what mounts have written down, of all users for root.
func records() []record {
	dirs := socketFolders()
	patterns := []string{fmt.Sprintf("/run/user/%d/prismfs", os.Getuid())}
	if os.Getuid() == 0 {
		patterns = []string{"/run/user/*/prismfs", "/tmp/prismfs-*"}
	}
	for _, p := range patterns {
		more, err := filepath.Glob(p)
		if err != nil {
			continue // only of a malformed pattern
		}
		dirs = append(dirs, more...)
	}
	slices.Sort(dirs)
	var list []record
	for _, dir := range slices.Compact(dirs) {
		names, err := filepath.Glob(filepath.Join(dir, "*"+recordSuffix))
		if err != nil || !trustworthy(dir) {
			continue
		}
		for _, name := range names {
			if r, err := readRecord(name); err == nil && r.Socket == strings.TrimSuffix(name, recordSuffix)+socketSuffix {
				r.socket, r.device = r.Socket, r.Device
				list = append(list, r)
			}
		}
	}
	return list
}

// trustworthy reports whether a folder is one that its owner alone can write to:
// in /tmp anybody could have made one. Root takes the folders of users for theirs.
func trustworthy(dir string) bool {
	owner, ok := onlyWriter(dir)
	return ok && (os.Getuid() == 0 || owner == os.Getuid())
}

// ownFolder reports whether a folder belongs to this user, who alone can write to it.
func ownFolder(dir string) bool {
	owner, ok := onlyWriter(dir)
	return ok && owner == os.Getuid()
}

// onlyWriter returns the owner of a folder that nobody else can write to.
func onlyWriter(dir string) (owner int, ok bool) {
	info, err := os.Lstat(dir)
	if err != nil || !info.IsDir() || info.Mode().Perm()&0o022 != 0 {
		return 0, false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(st.Uid), true
}

// askAll asks all mounts at once.
func askAll(ctx context.Context, list []record) []Status {
	out := make([]Status, len(list))
	var wg sync.WaitGroup
	for i, r := range list {
		wg.Go(func() { out[i] = askStatus(ctx, r) })
	}
	wg.Wait()
	return out
}

// askStatus asks one mount, and says what is known of it if it does not answer.
func askStatus(ctx context.Context, r record) Status {
	c := socketClient(r.socket)
	defer c.CloseIdleConnections()
	var s Status
	err := call(ctx, c, controlRequest{method: http.MethodGet, target: "/status"}, &s)
	if err == nil {
		s.device, s.socket = r.device, r.socket
		return s
	}
	s = r.Status
	s.device, s.socket = r.device, r.socket
	switch {
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, os.ErrNotExist):
		s.State, s.Why = StateDead, "its daemon is gone"
	case errors.Is(err, context.DeadlineExceeded), os.IsTimeout(err):
		s.State, s.Why = StateNoAnswer, fmt.Sprintf("its daemon did not answer within %v", statusWait)
	default:
		s.State, s.Why = StateNoAnswer, err.Error()
	}
	return s
}

// lookAtAll looks at mounts of which no socket is known.
func lookAtAll(ctx context.Context, list []mountEntry) []Status {
	out := make([]Status, len(list))
	var wg sync.WaitGroup
	for i, e := range list {
		wg.Go(func() { out[i] = lookAt(ctx, e) })
	}
	wg.Wait()
	return out
}

// lookAt looks at a mount through its mount point. A daemon that hangs keeps
// whoever does that waiting, so the look is left to itself when time is up.
func lookAt(ctx context.Context, e mountEntry) Status {
	found := make(chan Status, 1)
	go func() { found <- askThrough(ctx, e) }()
	select {
	case s := <-found:
		return s
	case <-ctx.Done():
		return Status{State: StateNoAnswer, Why: fmt.Sprintf("its daemon did not answer within %v", statusWait), Mountpoint: e.mountpoint, Source: e.source}
	}
}

func askThrough(ctx context.Context, e mountEntry) Status {
	s := Status{Mountpoint: e.mountpoint, Source: e.source, device: e.device}
	var st unix.Statfs_t
	switch err := unix.Statfs(e.mountpoint, &st); {
	case errors.Is(err, syscall.ENOTCONN):
		s.State, s.Why = StateDead, "its daemon is gone"
		return s
	case err != nil:
		s.State, s.Why = StateUnknown, err.Error()
		return s
	}
	text, err := os.ReadFile(filepath.Join(e.mountpoint, controlName, "config"))
	if err != nil {
		s.State, s.Why = StateUnknown, err.Error()
		return s
	}
	var config struct {
		Socket string `json:"socket"`
		PID    int    `json:"pid"`
		View   string `json:"view"`
	}
	if err := json.Unmarshal(text, &config); err != nil {
		s.State, s.Why = StateUnknown, err.Error()
		return s
	}
	s.State, s.socket, s.PID, s.View = StateServing, config.Socket, config.PID, config.View
	if config.Socket == "" {
		return s
	}
	asked := askStatus(ctx, record{Status: s, Device: e.device, Socket: config.Socket})
	asked.socket, asked.device, asked.Mountpoint = config.Socket, e.device, e.mountpoint
	switch {
	case asked.State.Answers():
		return asked
	case asked.State == StateDead: // though it answers through the mount, so both paths and processes are others here
		s.PID, s.Why = 0, "how full and how fast it is, is known in the container of its daemon alone"
	}
	return s
}

// joinFound adds mounts that were looked at. A daemon that was handed a descriptor
// does not know where its mount is; the look has found out.
func joinFound(list, found []Status) []Status {
	for _, f := range found {
		at := slices.IndexFunc(list, func(s Status) bool { return s.Elsewhere && s.socket != "" && s.socket == f.socket })
		if at < 0 {
			list = append(list, f)
			continue
		}
		list[at].Mountpoint, list[at].Elsewhere = f.Mountpoint, false
	}
	return list
}

// OwnMountpoints lists where the mounts of this user are, all for root, the last
// to be made first: one may lie in another.
func OwnMountpoints() ([]string, error) {
	list, err := ownMounts()
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, e := range slices.Backward(list) {
		paths = append(paths, e.mountpoint)
	}
	return paths, nil
}

// userOf returns the user that a FUSE mount belongs to, by the options that the
// kernel shows; -1 where they do not say.
func userOf(options string) int {
	for o := range strings.SplitSeq(options, ",") {
		if text, ok := strings.CutPrefix(o, "user_id="); ok {
			if n, err := strconv.Atoi(text); err == nil {
				return n
			}
		}
	}
	return -1
}
