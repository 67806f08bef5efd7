package fs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// ErrNoMount says that a path lies in no mount of prismfs.
var ErrNoMount = errors.New("it lies in no mount of prismfs")

// ErrNoSocket says that a mount has no control socket.
var ErrNoSocket = errors.New("the mount has no control socket")

// RefusedError is what the daemon of a mount says to a request that it does not
// carry out.
type RefusedError struct {
	Status int    // of HTTP
	Text   string // why
	Again  bool   // whether the mount asks to be asked again a little later
}

func (e *RefusedError) Error() string { return e.Text }

// Fidelities asks for the fidelity of an auto view, by its path with the mount
// point, such as /mnt/train+auto, and for those of all that have been set where
// the path is the mount point itself. They come by the path of the view below
// the mount point; 0 is full. It is for other processes than the one that serves
// the mount.
func Fidelities(ctx context.Context, path string) (map[string]int, error) {
	mountpoint, view, err := splitMountPath(path)
	if err != nil {
		return nil, err
	}
	if view == "" {
		var all struct {
			Views map[string]int `json:"views"`
		}
		err := ask(ctx, mountpoint, http.MethodGet, "/fidelity", nil, &all)
		return all.Views, err
	}
	var one FidelityOf
	err = ask(ctx, mountpoint, http.MethodGet, "/fidelity?view="+url.QueryEscape(view), nil, &one)
	if err == nil && one.Fidelity == nil {
		err = errors.New("the mount gave no fidelity")
	}
	if err != nil {
		return nil, fmt.Errorf("asking for the fidelity of %s: %w", path, err)
	}
	return map[string]int{one.View: *one.Fidelity}, nil
}

// SetFidelity sets the fidelity of an auto view for all opens from now on; 0 is
// full. It returns the largest fidelity that images of the view have, 0 where
// that is not known.
func SetFidelity(ctx context.Context, path string, k int) (largest int, err error) {
	mountpoint, view, err := splitMountPath(path)
	if err != nil {
		return 0, err
	}
	body := []byte(jsonText(FidelityOf{View: view, Fidelity: &k}))
	var set FidelityOf
	if err := ask(ctx, mountpoint, http.MethodPut, "/fidelity", body, &set); err != nil {
		return 0, fmt.Errorf("setting the fidelity of %s: %w", path, err)
	}
	return set.Largest, nil
}

// ask sends a request to the control socket of a mount and reads the answer.
func ask(ctx context.Context, mountpoint, method, target string, body []byte, into any) error {
	return askWith(ctx, mountpoint, controlRequest{method: method, target: target, body: bytes.NewReader(body), size: int64(len(body))}, into)
}

// controlRequest is one to the control socket of a mount.
type controlRequest struct {
	method, target string
	body           io.Reader
	size           int64 // of body
	patient        bool  // it may take longer than others, and is sent when the mount has agreed to take it
}

func askWith(ctx context.Context, mountpoint string, r controlRequest, into any) error {
	c, err := dialControl(ctx, mountpoint)
	if err != nil {
		return err
	}
	defer c.CloseIdleConnections()
	return call(ctx, c, r, into)
}

// splitMountPath splits a path into the mount point of ours that it lies in and
// the rest, which need not exist.
func splitMountPath(path string) (mountpoint, rest string, err error) {
	abs, err := absolute(path)
	if err != nil {
		return "", "", err
	}
	list, err := mounts()
	if err != nil {
		return "", "", err
	}
	// Links are followed only where the path as it is written leads to no mount.
	for _, candidate := range []func(string) (string, error){
		func(p string) (string, error) { return p, nil }, filepath.EvalSymlinks, resolveParent,
	} {
		p, err := inTime(background, abs, func() (string, error) { return candidate(abs) })
		if errors.As(err, new(*NoAnswerError)) {
			return "", "", err
		}
		if err != nil {
			continue
		}
		if m, ok := innermostMount(list, p); ok {
			return m, strings.TrimPrefix(strings.TrimPrefix(p, m), "/"), nil
		}
	}
	if _, err := inTime(background, abs, func() (iofs.FileInfo, error) { return os.Lstat(abs) }); errors.Is(err, os.ErrNotExist) {
		return "", "", fmt.Errorf("%s does not exist; %w", abs, ErrNoMount)
	}
	return "", "", fmt.Errorf("%s: %w", abs, ErrNoMount)
}

// innermostMount returns the mount point that a path lies in, if it is one of
// ours.
func innermostMount(list []mountEntry, path string) (string, bool) {
	var best mountEntry
	for _, e := range list { // of two on one mount point the later one is on top
		if within(path, e.mountpoint) && len(e.mountpoint) >= len(best.mountpoint) {
			best = e
		}
	}
	return best.mountpoint, best.fsType == fsType
}

// dialControl returns a client of a mount's control socket. One that hangs is an error.
func dialControl(ctx context.Context, mountpoint string) (*http.Client, error) {
	if err := checkAnswers(ctx, mountpoint); err != nil {
		return nil, err
	}
	name := filepath.Join(mountpoint, controlName, "config")
	text, err := inTime(ctx, mountpoint, func() ([]byte, error) { return os.ReadFile(name) })
	if err != nil {
		return nil, fmt.Errorf("asking the mount for its control socket: %w", err)
	}
	var config struct {
		Socket string `json:"socket"`
	}
	if err := json.Unmarshal(text, &config); err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	if config.Socket == "" {
		return nil, fmt.Errorf("%s: %w; %s says why", mountpoint, ErrNoSocket, filepath.Join(mountpoint, controlName, "log"))
	}
	return socketClient(config.Socket), nil
}

// socketClient returns a client of a control socket.
func socketClient(socket string) *http.Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
		if errors.Is(err, os.ErrNotExist) {
			err = fmt.Errorf("its control socket %s is not here (%w); where its daemon is in another container, ask there, or share the socket's folder with this one",
				socket, syscall.ENOENT)
		}
		return conn, err
	}
	return &http.Client{Timeout: controlTimeout, Transport: &http.Transport{DialContext: dial, ExpectContinueTimeout: controlTimeout}}
}

// errNotOwner says that the control socket is for others.
var errNotOwner = errors.New("only root and the user who mounted may do this")

// call sends a request and reads the answer.
func call(ctx context.Context, c *http.Client, r controlRequest, into any) error {
	hr, err := http.NewRequestWithContext(ctx, r.method, "http://prismfs"+r.target, r.body)
	if err != nil {
		return err
	}
	if hr.ContentLength = r.size; r.size == 0 {
		hr.Body = http.NoBody
	}
	if r.patient {
		c.Timeout = 0
		if r.size > 0 {
			hr.Header.Set("Expect", "100-continue") // or an early answer could be lost
		}
	}
	response, err := c.Do(hr)
	if errors.Is(err, syscall.EACCES) {
		return fmt.Errorf("%w: %w", errNotOwner, syscall.EACCES)
	}
	if err != nil {
		var where *url.Error
		if errors.As(err, &where) { // its address means nothing
			err = where.Err
		}
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxControlBytes))
	if err != nil {
		return fmt.Errorf("reading the answer of the mount: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		var refused struct {
			Error string `json:"error"`
		}
		if json.Unmarshal(text, &refused) != nil || refused.Error == "" {
			refused.Error = response.Status
		}
		return &RefusedError{Status: response.StatusCode, Text: refused.Error, Again: response.Header.Get("Retry-After") != ""}
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("reading the answer of the mount: %w", err)
	}
	return nil
}
