package fs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"strconv"
	"sync"
	"time"

	"prismfs/internal/plural"
	"prismfs/order"
)

// Plans come and go through the control socket:
//
//	PUT /plan?name=NAME&start=N&prefix=FOLDER   the paths, one a line: {"plan": …}
//	GET /plan                                   {"plans": […]}
//	DELETE /plan?name=NAME                      {"removed": "NAME"}
//
// Paths are relative to the mount point, as its readers write them, or begin with
// the mount point, or with the prefix, by which the sender knows it.

const (
	// DefaultPlan is the name of a plan that is given none.
	DefaultPlan = "default"
	// maxPlanUploads is how many plans are taken at the same time, and
	// maxUploadedBytes of how many bytes together: they are in files for so long.
	maxPlanUploads   = 16
	maxUploadedBytes = 4 * order.MaxPlanBytes
	// planPause is the longest time that a sender may leave between two pieces of
	// a plan, and planUpload the longest for all.
	planPause  = 10 * time.Second
	planUpload = 5 * time.Minute
	// planProbes is how many lines of a new plan are looked up: if none leads
	// anywhere it is not meant for this mount.
	planProbes = 8
)

// PlanProgress says how far a plan is.
type PlanProgress struct {
	Name        string `json:"name"`
	Lines       int64  `json:"lines"`
	Start       int64  `json:"start"`                 // the first line that was to be read
	Place       int64  `json:"place"`                 // the line after the foremost one that was opened
	Read        int64  `json:"read"`                  // lines that were opened
	Absent      int64  `json:"absent"`                // lines that lead to no file, of those that were looked up
	Skipped     int64  `json:"skipped"`               // lines that lead to folders and files that are not decoded, of those too
	Made        uint64 `json:"made"`                  // images decoded ahead
	Useful      uint64 `json:"useful"`                // of them, opened since
	Wasted      uint64 `json:"wasted"`                // of them, left by the readers
	Failed      uint64 `json:"failed"`                // lines that could not be made, absent ones among them
	OneFailure  string `json:"one_failure,omitempty"` // the first of them, and why
	IdleSeconds int64  `json:"idle_s"`                // since a reader was seen
}

// progress returns how far a plan is.
func (p *plan) progress() PlanProgress {
	s := p.Stats()
	return PlanProgress{
		Name: p.name, Lines: s.Lines, Start: s.Start, Place: s.Place, Read: s.Read, Absent: s.Absent, Skipped: s.Skipped,
		Made: s.Ahead.Made, Useful: s.Ahead.Useful, Wasted: s.Ahead.Wasted, Failed: s.Ahead.Failed, OneFailure: s.OneFailure,
		IdleSeconds: int64(s.Idle.Seconds()),
	}
}

func (m *mount) getPlans(w http.ResponseWriter, r *http.Request) {
	all := []PlanProgress{}
	for _, p := range m.plans.all() {
		all = append(all, p.progress())
	}
	answer(w, http.StatusOK, map[string]any{"plans": all})
}

func (m *mount) deletePlan(w http.ResponseWriter, r *http.Request) {
	name, err := planName(r)
	if err != nil {
		refuse(w, err)
		return
	}
	if !m.plans.remove(name) {
		refuse(w, fmt.Errorf("there is no plan %s: %w", name, errNoPlan))
		return
	}
	m.log.Info("a plan was removed", "plan", name)
	answer(w, http.StatusOK, map[string]string{"removed": name})
}

// putPlan takes a plan. Whatever is wrong with it, or with who sends it, leaves
// the plan of that name as it is.
func (m *mount) putPlan(w http.ResponseWriter, r *http.Request) {
	size := r.ContentLength
	if size < 0 || size > order.MaxPlanBytes { // not known, or about to be refused
		size = order.MaxPlanBytes
	}
	if !m.plans.uploads.enter(size) {
		w.Header().Set("Retry-After", "1")
		w.Header().Set("Connection", "close") // it need not be sent
		refuse(w, fmt.Errorf("%w: as many plans are being sent already as are taken at a time", errBusy))
		return
	}
	defer m.plans.uploads.leave(size)
	p, err := m.takePlan(w, r)
	if err != nil {
		m.log.Warn("a plan was refused", "error", err)
		w.Header().Set("Connection", "close") // the rest of it need not be sent
		refuse(w, err)
		return
	}
	now := p.progress()
	m.log.Info("a plan was taken", "plan", now.Name, "lines", now.Lines, "start", now.Start)
	answer(w, http.StatusOK, map[string]any{"plan": now})
}

// takePlan reads a plan, checks it and begins it.
func (m *mount) takePlan(w http.ResponseWriter, r *http.Request) (*plan, error) {
	if r.ContentLength > order.MaxPlanBytes {
		return nil, fmt.Errorf("%w: %d bytes; %d are the most", order.ErrPlanTooLarge, r.ContentLength, int64(order.MaxPlanBytes))
	}
	name, err := planName(r)
	if err != nil {
		return nil, err
	}
	start := int64(0)
	if text := r.URL.Query().Get("start"); text != "" {
		if start, err = strconv.ParseInt(text, 10, 64); err != nil || start < 0 {
			return nil, badRequest{fmt.Errorf("start %q is no number of a line", text)}
		}
	}
	prefixes := []string{m.opt.Mountpoint}
	if prefix := r.URL.Query().Get("prefix"); prefix != "" && path.Clean(prefix) != path.Clean(m.opt.Mountpoint) {
		prefixes = append(prefixes, prefix)
	}
	body := &patientBody{r: r, control: http.NewResponseController(w), pause: m.plans.pause, until: time.Now().Add(planUpload)}
	var alone bool
	lines, err := order.ReadPlan(body, order.PlanText{Prefixes: prefixes, Hash: inodeNumber, Come: func() error {
		m.plans.settling.Lock()
		alone = true
		return body.control.SetWriteDeadline(time.Now().Add(controlTimeout)) // the answer is not late, it was not its turn
	}})
	if alone {
		defer m.plans.settling.Unlock()
	}
	switch {
	case body.broken != nil:
		return nil, badRequest{err}
	case err != nil:
		return nil, err
	}
	p, err := m.beginPlan(r.Context(), name, lines, start)
	if err != nil {
		return nil, errors.Join(err, lines.Close())
	}
	return p, nil
}

// beginPlan checks what was read, and takes it.
func (m *mount) beginPlan(ctx context.Context, name string, lines *order.PlanLines, start int64) (*plan, error) {
	if start > lines.Len() {
		return nil, badRequest{fmt.Errorf("the plan has %s, it cannot start at line %d", plural.Of(lines.Len(), "line"), start)}
	}
	if err := m.probePlan(lines); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil { // who sent it has gone
		return nil, err
	}
	return m.plans.put(name, lines, start)
}

// probePlan looks some lines up. A plan of which none leads to anything was made
// for another mount, or its paths begin at another folder.
func (m *mount) probePlan(lines *order.PlanLines) error {
	source := &planSource{m: m}
	var failed error
	for k := range int64(planProbes) {
		name, err := lines.Path(k * lines.Len() / planProbes)
		if err != nil {
			return err
		}
		if _, err = source.resolve(name); err == nil {
			return nil
		}
		if errors.Is(err, errInStream) {
			return badRequest{fmt.Errorf("%q: %w", name, err)}
		}
		if failed == nil && errors.Is(err, errNoEchoes) {
			failed = fmt.Errorf("%.200q, and others that were looked up, cannot be read: %w", name, err)
		} else if failed == nil {
			failed = fmt.Errorf("%.200q, and others that were looked up, lead to no file of the mount%s (%w)", name, order.Wanted([]string{m.opt.Mountpoint}), err)
		}
	}
	return badRequest{failed}
}

// errInStream says that a path lies in a stream.
var errInStream = errors.New("streams need no plan: who reads a shard is followed as it is")

// planName returns the name of the plan that a request is about.
func planName(r *http.Request) (string, error) {
	name := r.URL.Query().Get("name")
	if name == "" {
		return DefaultPlan, nil
	}
	if !isPlainName(name) {
		return "", badRequest{fmt.Errorf("plan name %.100q: letters, digits, ., - and _, at most %d", name, maxAutoName)}
	}
	return name, nil
}

// patientBody is the body of a request. Each piece may take its time, and all of
// them together a longer one.
type patientBody struct {
	r       *http.Request
	control *http.ResponseController
	pause   time.Duration
	until   time.Time
	broken  error // what the sender did wrong, being slow excepted
}

// Read implements io.Reader.
func (b *patientBody) Read(p []byte) (int, error) {
	deadline := time.Now().Add(b.pause)
	if deadline.After(b.until) {
		deadline = b.until
	}
	// The answer gets as long again.
	err := errors.Join(b.control.SetReadDeadline(deadline), b.control.SetWriteDeadline(deadline.Add(controlTimeout)))
	if err != nil {
		return 0, err
	}
	n, err := b.r.Body.Read(p)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, os.ErrDeadlineExceeded) {
		b.broken = err
	}
	return n, err
}

// errNoPlan says that there is no plan of a name, errBusy that a request may be
// repeated later.
var (
	errNoPlan = errors.New("it was removed, or never sent")
	errBusy   = errors.New("try again later")
)

// uploads are the plans that are being sent; their number and size are bounded.
type uploads struct {
	mu    sync.Mutex
	count int
	bytes int64
}

// enter begins one of so many bytes, unless there are too many.
func (u *uploads) enter(bytes int64) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.count >= maxPlanUploads || u.bytes+bytes > maxUploadedBytes {
		return false
	}
	u.count++
	u.bytes += bytes
	return true
}

func (u *uploads) leave(bytes int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.count--
	u.bytes -= bytes
}

// running is how many there are.
func (u *uploads) running() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.count
}
