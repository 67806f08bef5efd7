package fs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	iofs "io/fs"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"prismfs/order"
)

// What is set at run time goes through a Unix socket, HTTP with JSON, since the
// mount is read-only. The socket lies in a folder that only its owner (and root)
// can enter; who reaches it may set what it sets.
//
//	GET /fidelity                    {"views": {"train+auto": 3}}, what has been set
//	GET /fidelity?view=train%2Bauto  {"view": "train+auto", "fidelity": 3}; 0 is full
//	PUT /fidelity  {"view": "train+auto", "fidelity": 3}
//	GET /advice                      {"machine": {…}, "views": [{"seen": {…}, "verdict": "waiting", "text": "…", "steps": […]}]}
//	GET /status                      see Status
//
// Plans are in control_plan.go.
// Errors are {"error": "why"}.

const (
	// maxControlBytes bounds a request's body, and an answer's.
	maxControlBytes = 1 << 20
	// controlTimeout bounds a request: all are answered from memory or by a
	// look at a folder of the source.
	controlTimeout = 30 * time.Second
	// staleAfter is the age from which a socket that nobody listens on is taken
	// for one that a crash left behind.
	staleAfter   = time.Minute
	socketSuffix = ".sock"
)

// controlSocket answers requests until it is closed.
type controlSocket struct {
	path   string
	server *http.Server
}

// openControlSocket listens, in the first folder that can be used.
func (m *mount) openControlSocket() (*controlSocket, error) {
	var failed error
	for _, dir := range socketFolders() {
		listener, err := listenIn(dir)
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		mux := http.NewServeMux()
		mux.HandleFunc("GET /fidelity", m.getFidelity)
		mux.HandleFunc("PUT /fidelity", m.putFidelity)
		mux.HandleFunc("GET /plan", m.getPlans)
		mux.HandleFunc("PUT /plan", m.putPlan)
		mux.HandleFunc("DELETE /plan", m.deletePlan)
		mux.HandleFunc("GET /advice", m.getAdvice)
		mux.HandleFunc("GET /status", m.getStatus)
		s := &controlSocket{path: listener.Addr().String(), server: &http.Server{
			Handler:      mux,
			ReadTimeout:  controlTimeout,
			WriteTimeout: controlTimeout,
			ErrorLog:     log.New(logTo(m.log.Warn), "", 0),
		}}
		go s.server.Serve(listener) // until close, which is the error that it ends with
		return s, nil
	}
	return nil, failed
}

// address returns the path of the socket, "" for none.
func (s *controlSocket) address() string {
	if s == nil {
		return ""
	}
	return s.path
}

// logTo writes lines to a log.
type logTo func(msg string, args ...any)

func (to logTo) Write(p []byte) (int, error) {
	to("control socket", "error", strings.TrimSpace(string(p)))
	return len(p), nil
}

// close ends the socket and removes its file; there may be none.
func (s *controlSocket) close() {
	if s == nil {
		return
	}
	ctx, cancel := context.WithTimeout(background, time.Second)
	defer cancel()
	os.Remove(recordOf(s.path))
	if s.server.Shutdown(ctx) != nil {
		s.server.Close()
	}
}

// socketFolders lists where the socket may lie, best first. The address of a
// socket has room for 107 bytes, so deep folders may be of no use.
func socketFolders() []string {
	var dirs []string
	if run := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(run) {
		dirs = append(dirs, filepath.Join(run, "prismfs"))
	}
	if os.Getuid() == 0 {
		dirs = append(dirs, "/run/prismfs")
	}
	return append(dirs, fmt.Sprintf("/tmp/prismfs-%d", os.Getuid()))
}

// listenIn makes a socket in a folder, which it makes too if need be.
func listenIn(dir string) (net.Listener, error) {
	if err := privateFolder(dir); err != nil {
		return nil, err
	}
	if mounted, err := mounts(); err == nil {
		removeStale(dir, mounted)
	}
	// CreateTemp picks a name that nobody has; the socket takes its place.
	f, err := os.CreateTemp(dir, "*"+socketSuffix)
	if err != nil {
		return nil, fmt.Errorf("making a control socket: %w", err)
	}
	name := f.Name()
	f.Close()
	if err := os.Remove(name); err != nil {
		return nil, fmt.Errorf("making a control socket: %w", err)
	}
	l, err := net.Listen("unix", name)
	if err != nil {
		return nil, fmt.Errorf("making a control socket: %w", err)
	}
	if err := os.Chmod(name, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("closing a control socket to others: %w", err), l.Close())
	}
	return l, nil
}

// privateFolder makes a folder that belongs to this user alone. In /tmp somebody
// else may have been quicker; such a one is refused.
func privateFolder(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, iofs.ErrExist) {
		return fmt.Errorf("making the folder of control sockets: %w", err)
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("looking at the folder of control sockets: %w", err)
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.IsDir():
		return fmt.Errorf("%s, for control sockets, is no folder", dir)
	case !ok || int(st.Uid) != os.Getuid():
		return fmt.Errorf("%s, for control sockets, belongs to another user", dir)
	case info.Mode().Perm() == 0o700:
		return nil
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return fmt.Errorf("closing the folder of control sockets to others: %w", err)
	}
	return nil
}

// removeStale removes sockets, and what daemons have written down beside them, that
// a crash left behind: nobody listens, and the mount is gone too. A dead mount that
// is still there, in the list of mounts, keeps its record, for prismfs status. A socket without a record that
// is new may be about to be listened on.
func removeStale(dir string, mounted []mountEntry) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return // nothing depends on it
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || info.Mode()&os.ModeSocket == 0 || !strings.HasSuffix(e.Name(), socketSuffix) {
			continue
		}
		path := filepath.Join(dir, e.Name())
		r, err := readRecord(recordOf(path))
		switch {
		case err != nil && time.Since(info.ModTime()) < staleAfter:
			continue
		case err == nil && slices.ContainsFunc(mounted, r.describes):
			continue
		}
		conn, err := net.DialTimeout("unix", path, time.Second)
		if err == nil {
			conn.Close()
		} else if errors.Is(err, syscall.ECONNREFUSED) {
			os.Remove(recordOf(path)) // first, since it is looked for by the socket
			os.Remove(path)
		}
	}
	removeLostRecords(dir, entries, mounted)
}

// removeLostRecords removes records whose socket is gone: a daemon that is killed while it
// ends, or somebody who tidies up, has left them, and no look at sockets finds them.
func removeLostRecords(dir string, entries []os.DirEntry, mounted []mountEntry) {
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() || !strings.HasSuffix(e.Name(), recordSuffix) || time.Since(info.ModTime()) < staleAfter {
			continue
		}
		path := filepath.Join(dir, e.Name())
		if _, err := os.Lstat(strings.TrimSuffix(path, recordSuffix) + socketSuffix); !errors.Is(err, iofs.ErrNotExist) {
			continue
		}
		if r, err := readRecord(path); err == nil && slices.ContainsFunc(mounted, r.describes) {
			continue
		}
		os.Remove(path)
	}
}

// removeAllStale does so wherever mounts of this user make sockets. Root leaves the
// folders of others alone: who owns a folder could put another in its place.
func removeAllStale() {
	mounted, err := mounts()
	if err != nil {
		return
	}
	for _, dir := range socketFolders() {
		if ownFolder(dir) {
			removeStale(dir, mounted)
		}
	}
}

// FidelityOf says which fidelity an auto view has; 0 is full.
type FidelityOf struct {
	View     string `json:"view"` // path below the mount point, such as train+auto
	Fidelity *int   `json:"fidelity"`
	// Largest is, in an answer, the largest fidelity that images of the view have: 1
	// of L3, 0 where that is not known, as of a folder above several of records.
	Largest int `json:"largest,omitempty"`
}

// getFidelity answers with one setting, or all.
func (m *mount) getFidelity(w http.ResponseWriter, r *http.Request) {
	if !r.URL.Query().Has("view") {
		answer(w, http.StatusOK, map[string]any{"views": m.auto.all()})
		return
	}
	view, err := m.autoViewAt(r.Context(), r.URL.Query().Get("view"))
	if err != nil {
		refuse(w, err)
		return
	}
	k := m.auto.of(view)
	answer(w, http.StatusOK, FidelityOf{View: view.String(), Fidelity: &k})
}

// putFidelity sets the fidelity of a view for the opens that come after the
// answer.
func (m *mount) putFidelity(w http.ResponseWriter, r *http.Request) {
	var in FidelityOf
	body := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxControlBytes))
	body.DisallowUnknownFields()
	if err := body.Decode(&in); err != nil {
		refuse(w, badRequest{fmt.Errorf("reading the request: %w", err)})
		return
	}
	if in.Fidelity == nil {
		refuse(w, badRequest{errors.New("the request has no fidelity")})
		return
	}
	view, err := m.autoViewAt(r.Context(), in.View)
	if err != nil {
		refuse(w, err)
		return
	}
	before, err := m.auto.put(view, *in.Fidelity)
	if err != nil {
		refuse(w, badRequest{err})
		return
	}
	m.log.Info("the fidelity of a view was set", "view", view.String(), "fidelity", *in.Fidelity, "before", before)
	largest := m.ds.Levels(r.Context(), view.Folder)
	if largest > 0 && *in.Fidelity > largest {
		m.log.Warn("no image of the view has so high a fidelity; full fidelity is used", "view", view.String(), "fidelity", *in.Fidelity, "largest", largest)
	}
	m.retireFidelity(view.Folder, effective(before, largest), effective(*in.Fidelity, largest))
	answer(w, http.StatusOK, FidelityOf{View: view.String(), Fidelity: in.Fidelity, Largest: largest})
}

// effective returns what a fidelity, 0 being full, comes to where images have no
// more than largest; 0 is not known.
func effective(k, largest int) int {
	if largest > 0 && (k == 0 || k > largest) {
		return largest
	}
	return k
}

// retireFidelity tells the cache that files of a folder will be read at another
// fidelity from now on.
func (m *mount) retireFidelity(folder string, before, now int) {
	if before == now {
		return
	}
	m.cache.Retire(func(key bufferKey) bool {
		return key.fidelity == before && (folder == "" || strings.HasPrefix(key.path, folder+"/"))
	})
}

// badRequest is an error of who sent it.
type badRequest struct{ error }

// autoViewAt returns the auto view of a folder by its path below the mount point.
func (m *mount) autoViewAt(ctx context.Context, view string) (AutoView, error) {
	at := place{view: m.opt.View}
	for name := range strings.SplitSeq(view, "/") {
		if name == "" || name == "." {
			continue
		}
		t, err := m.names.resolve(ctx, at, name)
		if err == nil && t.kind != folder {
			err = syscall.ENOTDIR
		}
		if err != nil {
			return AutoView{}, fmt.Errorf("looking for the view %s: %w", view, err)
		}
		at = t.at
	}
	auto := at.view.Auto
	switch {
	case auto.Word == "":
		return auto, badRequest{fmt.Errorf("%q is no auto view: its name ends in +auto or +auto-NAME", view)}
	case auto.Folder != at.source:
		return auto, badRequest{fmt.Errorf("%q lies in the view %v, which has one fidelity as a whole; set that", view, auto)}
	}
	return auto, nil
}

// refuse answers with an error.
func refuse(w http.ResponseWriter, err error) {
	status := http.StatusInternalServerError
	switch {
	case errors.As(err, new(badRequest)), errors.Is(err, iofs.ErrInvalid), // .. among the names
		errors.Is(err, order.ErrPlan):
		status = http.StatusBadRequest
	case errors.Is(err, iofs.ErrNotExist), errors.Is(err, syscall.ENOTDIR), errors.Is(err, errNoPlan):
		status = http.StatusNotFound
	case errors.Is(err, order.ErrPlanTooLarge):
		status = http.StatusRequestEntityTooLarge
	case errors.Is(err, errBusy), errors.Is(err, errTooManyPlans):
		status = http.StatusServiceUnavailable
	case errors.Is(err, os.ErrDeadlineExceeded):
		status = http.StatusRequestTimeout
	}
	answer(w, status, map[string]string{"error": err.Error()})
}

// answer writes JSON. Who asked may have gone; then nobody needs it.
func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(jsonText(v)))
}
