package fs

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

// Status is what a mount says of itself when it is asked how it is:
//
//	GET /status
//
// What never changes stands in a file beside the socket, too (recordSuffix), so that
// it is known of a daemon that does not answer.
type Status struct {
	State      State  `json:"state"`
	Why        string `json:"why,omitempty"` // the state is not StateServing, or there are no Counts
	Mountpoint string `json:"mountpoint"`
	// Elsewhere says that the mount is in another mount namespace: that of a
	// container, or of prismfs run.
	Elsewhere bool `json:"elsewhere"`
	// Detached says that the mount has left its mount point, where another one may be
	// by now, and ends when the last file that is open in it is closed.
	Detached bool   `json:"detached"`
	Source   string `json:"source"`
	View     string `json:"view,omitempty"`
	PID      int    `json:"pid,omitempty"`
	LogFile  string `json:"log_file,omitempty"`
	Version  string `json:"version,omitempty"`

	Counts *Counts `json:"counts,omitempty"` // nil of one that does not answer

	device string // of the mount, major:minor
	socket string
}

// Counts are the parts of Stats that people ask for first.
type Counts struct {
	Backend      string `json:"backend"`
	Passthrough  any    `json:"passthrough"` // true, or why not
	CacheBytes   int64  `json:"cache_bytes"`
	CacheBudget  int64  `json:"cache_budget_bytes"`
	PinnedBytes  int64  `json:"pinned_bytes"`
	DaemonBytes  int64  `json:"daemon_bytes"` // memory of the process itself, beside the cache
	UptimeS      int64  `json:"uptime_s"`
	Served       uint64 `json:"served"`
	Decoded      uint64 `json:"decoded"`
	Errors       uint64 `json:"errors"`
	SlowRequests uint64 `json:"slow_requests"`
}

// State is how a mount is.
type State string

// The states.
const (
	StateServing  State = "serving"
	StateNoSource State = "without its source" // the daemon answers, and the source folder is gone
	StateNoAnswer State = "no answer"          // the daemon hangs, or is stopped
	StateDead     State = "dead"               // the daemon is gone, and the mount is still there
	StateUnknown  State = "unknown"            // who asks may not look
)

// Answers reports whether the daemon itself has told of the state.
func (s State) Answers() bool { return s == StateServing || s == StateNoSource }

// record is the unchanging part of a status, as it is kept beside the socket.
type record struct {
	Status
	Device string `json:"device"`
	Socket string `json:"socket"`
}

// describes reports whether a record is of a mount, or of an earlier one that was in
// its place.
func (r record) describes(e mountEntry) bool {
	return e.fsType == fsType && e.device == r.Device && e.mountpoint == r.Mountpoint
}

// recordSuffix takes the place of socketSuffix.
const recordSuffix = ".json"

func recordOf(socket string) string { return strings.TrimSuffix(socket, socketSuffix) + recordSuffix }

// beginAnswering lets the control socket tell how the mount is, and writes down
// what is known of it.
func (m *mount) beginAnswering() {
	if entry, ok, err := mountedAt(m.opt.Mountpoint); err == nil && ok {
		m.device = entry.device
	}
	if m.socket == nil {
		return
	}
	r := record{Status: m.identity(), Device: m.device, Socket: m.socket.path}
	if err := os.WriteFile(recordOf(m.socket.path), []byte(jsonText(r)), 0o600); err != nil {
		m.log.Debug("should this process hang, prismfs status will know less of it", "error", err)
	}
	m.ready.Store(true)
}

// identity is what never changes.
func (m *mount) identity() Status {
	return Status{
		State: StateServing, Mountpoint: m.opt.Mountpoint, Source: m.opt.Source, View: m.opt.View.String(),
		PID: m.pid, LogFile: m.opt.LogFile, Version: m.opt.Version,
	}
}

// getStatus answers who asks how the mount is.
func (m *mount) getStatus(w http.ResponseWriter, _ *http.Request) {
	if !m.ready.Load() {
		answer(w, http.StatusServiceUnavailable, map[string]string{"error": "the mount is being made"})
		return
	}
	s, stats := m.identity(), m.stats()
	if why := m.gone.why(); why != "" {
		s.State, s.Why = StateNoSource, why
	}
	s.Detached = errors.Is(m.attached(), ErrDetached)
	s.Counts = &Counts{
		Backend: stats.Backend, Passthrough: stats.Passthrough,
		CacheBytes: stats.CacheBytes, CacheBudget: stats.CacheBudget, PinnedBytes: stats.PinnedBytes,
		DaemonBytes: residentBytes(), UptimeS: int64(time.Since(m.started).Seconds()),
		Served: stats.Served, Decoded: stats.Decoded, Errors: stats.Errors, SlowRequests: stats.SlowRequests,
	}
	answer(w, http.StatusOK, s)
}

// residentBytes is the memory of this process that no file stands for; the
// cache's files are not in it.
func residentBytes() int64 {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	_, after, ok := strings.Cut(string(text), "\nRssAnon:")
	if !ok {
		return 0
	}
	kib, err := strconv.ParseInt(strings.Fields(after)[0], 10, 64)
	if err != nil {
		return 0
	}
	return kib << 10
}

// readRecord reads what a mount has written down.
func readRecord(name string) (record, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return record{}, err
	}
	var r record
	err = json.Unmarshal(text, &r)
	return r, err
}
