package fs

import (
	"context"
	"fmt"
	"net/http"
	"path"
	"runtime"
	"time"

	"prismfs/advice"
	"prismfs/cache"
)

// maxAdvised bounds the views that advice is given of.
const maxAdvised = 16

// Advised is the answer to GET /advice.
type Advised struct {
	Machine advice.Machine  `json:"machine"`
	Views   []advice.Advice `json:"views"`    // the ones read most first
	LeftOut int             `json:"left_out"` // views that were read less
}

// Advise asks the mount at a mount point what would free its readers. It is for other
// processes than the one that serves the mount.
func Advise(ctx context.Context, mountpoint string) (Advised, error) {
	var out Advised
	mountpoint, err := mountPointOf(mountpoint)
	if err != nil {
		return out, err
	}
	if err := ask(ctx, mountpoint, http.MethodGet, "/advice", nil, &out); err != nil {
		return out, fmt.Errorf("asking %s for advice: %w", mountpoint, err)
	}
	return out, nil
}

// getAdvice answers with what would free the readers of each view.
func (m *mount) getAdvice(w http.ResponseWriter, r *http.Request) {
	c := m.cacheStats()
	out := Advised{Views: []advice.Advice{}, Machine: advice.Machine{
		Processors: runtime.NumCPU(), Jobs: m.opt.Workers, CacheBudget: c.Budget, Pin: m.opt.CachePolicy == cache.Pin,
	}}
	if out.Machine.Jobs == 0 {
		out.Machine.Jobs = runtime.GOMAXPROCS(0)
	}
	if mem, err := cache.ReadMemory(); err == nil {
		out.Machine.Memory = mem.Free() + c.Bytes
	}
	for _, v := range m.readers.seen() {
		if len(out.Views) == maxAdvised {
			out.LeftOut++
			continue
		}
		out.Views = append(out.Views, advice.Of(m.adviceOn(r.Context(), v), out.Machine))
	}
	answer(w, http.StatusOK, out)
}

// adviceOn puts together what advice needs to know of a view.
func (m *mount) adviceOn(ctx context.Context, v *seenView) advice.Seen {
	name := viewName(v.name, v.of, m.opt.View)
	s := advice.Seen{
		View: name, Path: path.Join(m.opt.Mountpoint, name), Readers: v.readers, Opens: v.opens, Misses: min(v.misses, v.opens),
		Own: v.own, Waited: v.waited, Store: v.took.store, Decode: v.took.decode,
		Files: v.distinct.count(), Echo: echoOf(v.of),
	}
	if len(v.folders.names) > 1 {
		s.Folders = v.folders.names
	}
	if v.opens > 0 {
		s.FileBytes = v.bytes / v.opens
	}
	// The decoder does not say of a request how long it has waited, but of all.
	if d := m.decoder.Stats(); d.WaitNS+d.DecodeNS > 0 {
		s.Queue = time.Duration(float64(s.Decode) * float64(d.WaitNS) / float64(d.WaitNS+d.DecodeNS))
		s.Decode -= s.Queue
	}
	for _, c := range v.samples {
		s.Coding = codingOf(c)
		s.Fidelity = max(s.Fidelity, c.fidelity)
	}
	s.Fidelities = m.fidelityBytes(ctx, v.samples)
	if s.Fidelities == nil {
		s.Fidelity = 0
	}
	return s
}

// fidelityBytes returns what images cost at each fidelity, on average; nil where
// they have one only.
func (m *mount) fidelityBytes(ctx context.Context, samples []content) []int64 {
	levels := 0
	for _, c := range samples {
		levels = max(levels, c.sample.Levels)
	}
	if levels < 2 || levels > maxAdvisedFidelities {
		return nil
	}
	means := make([]int64, levels)
	for k := range means {
		for _, c := range samples {
			n, err := m.ds.EncodedBytes(ctx, c.sample, levelOf(c.sample, k+1))
			if err != nil {
				return nil // the file is gone, or another one
			}
			means[k] += n / int64(len(samples))
		}
	}
	return means
}

// maxAdvisedFidelities bounds the fidelities that are looked at; records have ten.
const maxAdvisedFidelities = 64
