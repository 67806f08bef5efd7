package fs

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// answerWait is how long a mount may take to answer somebody who only wants to know
// whether it does. Its daemon answers from memory.
const answerWait = 5 * time.Second

// NoAnswerError says that a mount does not answer: whoever looks into it waits.
type NoAnswerError struct{ Path string }

func (e *NoAnswerError) Error() string {
	return fmt.Sprintf("%s: the mount does not answer within %v, its daemon hangs or is stopped; prismfs status shows it, prismfs umount --lazy takes it away", e.Path, answerWait)
}

// inTime looks at something that may lie in a mount that hangs, and then waits no
// longer than answerWait. The look is left to itself: the end of the process ends it.
func inTime[T any](ctx context.Context, path string, look func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	found := make(chan result, 1)
	go func() {
		value, err := look()
		found <- result{value, err}
	}()
	late := time.NewTimer(answerWait)
	defer late.Stop()
	var none T
	select {
	case r := <-found:
		return r.value, r.err
	case <-ctx.Done():
		return none, ctx.Err()
	case <-late.C:
		return none, &NoAnswerError{path}
	}
}

// answers returns nil for a mount whose daemon is alive, ENOTCONN where it is dead,
// and a NoAnswerError where it hangs. The control socket is asked where it is known:
// who asks through the mount may wait for the daemon even when it is to be killed.
func answers(ctx context.Context, e mountEntry) error {
	gone := false
	for _, r := range records() {
		if !r.describes(e) {
			continue
		}
		if err := answersOn(ctx, r.Socket); err == nil {
			return nil
		} else if os.IsTimeout(err) || errors.Is(err, context.DeadlineExceeded) {
			return &NoAnswerError{e.mountpoint}
		} else if errors.Is(err, unix.ECONNREFUSED) {
			gone = true
		}
	}
	// A stat would not tell: the kernel may answer it from what it remembers.
	_, err := inTime(ctx, e.mountpoint, func() (struct{}, error) {
		var st unix.Statfs_t
		return struct{}{}, unix.Statfs(e.mountpoint, &st)
	})
	if gone && err == nil {
		// The kernel may have told nothing, since it is another user's mount. Then even
		// root may not look at it, and that nobody listens has to do.
		_, err := inTime(ctx, e.mountpoint, func() (os.FileInfo, error) { return os.Lstat(e.mountpoint) })
		if errors.Is(err, unix.EACCES) {
			return unix.ENOTCONN
		}
	}
	return err
}

func answersOn(ctx context.Context, socket string) error {
	ctx, cancel := context.WithTimeout(ctx, answerWait)
	defer cancel()
	c := socketClient(socket)
	defer c.CloseIdleConnections()
	var s Status
	return call(ctx, c, controlRequest{method: http.MethodGet, target: "/status"}, &s)
}

// checkAnswers returns an error if the mount at a mount point hangs.
func checkAnswers(ctx context.Context, mountpoint string) error {
	entry, ok, err := mountedAt(mountpoint)
	if err != nil || !ok {
		return err
	}
	var none *NoAnswerError
	if err := answers(ctx, entry); errors.As(err, &none) || ctx.Err() != nil {
		return err
	}
	return nil // what else is wrong, the use of it will tell
}

// absolute is filepath.Abs. The working folder may lie in a mount that hangs.
func absolute(path string) (string, error) {
	if filepath.IsAbs(path) {
		return filepath.Clean(path), nil
	}
	return inTime(background, path, func() (string, error) { return filepath.Abs(path) })
}

// resolveParent makes a path absolute and free of links without touching what is
// mounted there, which may be dead or hang.
func resolveParent(path string) (string, error) {
	abs, err := absolute(path)
	if err != nil {
		return "", err
	}
	return inTime(background, abs, func() (string, error) { return resolveBeside(abs) })
}

// maxLinks is as many links as the kernel follows in a path.
const maxLinks = 40

func resolveBeside(abs string) (string, error) {
	for range maxLinks {
		dir, name := filepath.Split(abs)
		parent, err := filepath.EvalSymlinks(dir)
		if err != nil {
			return "", err
		}
		full := filepath.Join(parent, name)
		if _, mounted, err := mountedAt(full); err != nil || mounted {
			return full, err
		}
		target, err := os.Readlink(full)
		if err != nil {
			return full, nil // no link, or not there
		}
		if !filepath.IsAbs(target) {
			target = parent + "/" + target // not joined: links come before ..
		}
		switch filepath.Base(target) {
		case "/", ".", "..":
			return filepath.EvalSymlinks(target)
		}
		if abs = target; abs[len(abs)-1] == '/' {
			abs = filepath.Clean(abs)
		}
	}
	return "", &os.PathError{Op: "resolve", Path: abs, Err: unix.ELOOP}
}
