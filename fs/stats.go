package fs

import (
	"runtime"
	"time"

	"prismfs/cache"
	"prismfs/gpudecode"
)

// Stats are counts since the mount, as .prismfs/stats gives them. Keys are never
// renamed.
type Stats struct {
	Served           uint64            `json:"served"`  // opens answered with a decoded buffer
	Decoded          uint64            `json:"decoded"` // images
	CacheHits        uint64            `json:"cache_hits"`
	CacheMisses      uint64            `json:"cache_misses"`
	CacheEvictions   uint64            `json:"cache_evictions"`
	CacheBytes       int64             `json:"cache_bytes"`
	PinnedBytes      int64             `json:"pinned_bytes"`
	CacheKept        int64             `json:"cache_kept_bytes"` // has a place, under policy pin
	CacheBudget      int64             `json:"cache_budget_bytes"`
	CacheLimit       int64             `json:"cache_limit_bytes"` // budget plus the allowance for pins
	CacheBuffers     int               `json:"cache_buffers"`
	StoreBytesRead   uint64            `json:"store_bytes_read"` // for samples
	StoreBytesNeeded uint64            `json:"store_bytes_needed"`
	StoreBytesIndex  uint64            `json:"store_bytes_index"` // for headers and tables
	StoreNS          uint64            `json:"store_ns"`          // of reading samples, over all requests
	Errors           uint64            `json:"errors"`
	SourceGone       bool              `json:"source_gone"`   // the folder was removed, or its file system fails
	Panics           uint64            `json:"panics"`        // requests that were answered by EIO since prismfs has a fault
	SlowRequests     uint64            `json:"slow_requests"` // that took longer than five seconds
	LeftOut          uint64            `json:"left_out"`      // devices, sockets, pipes and broken links, of folders as they were when last listed
	Batches          uint64            `json:"batches"`
	BatchImages      uint64            `json:"batch_images"`
	WaitNS           uint64            `json:"wait_ns"`
	DecodeNS         uint64            `json:"decode_ns"`
	ReadAheadMade    uint64            `json:"read_ahead_made"` // images decoded ahead of a reader
	ReadAheadUseful  uint64            `json:"read_ahead_useful"`
	ReadAheadWasted  uint64            `json:"read_ahead_wasted"` // not opened before their reader was gone
	EchoFresh        uint64            `json:"echo_fresh"`        // requests of echo views that got their own image
	EchoEchoes       uint64            `json:"echo_echoes"`       // that got another one of their folder
	EchoEarly        uint64            `json:"echo_early"`        // fresh before their turn, where a folder had too few echoes
	EchoLate         uint64            `json:"echo_late"`         // put off, where it had enough
	EchoForced       uint64            `json:"echo_forced"`       // fresh beyond their turn, where a folder had no image at all
	EchoRepeats      uint64            `json:"echo_repeats"`      // echoes of images that had been served often enough
	EchoLost         uint64            `json:"echo_lost"`         // echoes of images that had to go before
	EchoBuffered     int               `json:"echo_buffered"`     // images that are kept for echoes
	EchoBytes        int64             `json:"echo_bytes"`        // that they take
	EchoViews        []EchoViewStats   `json:"echo_views"`        // of those that are remembered
	Helpers          uint64            `json:"decode_helpers"`    // processors that helped with a large image
	Tolerated        uint64            `json:"tolerated_jpegs"`   // decoded in spite of warnings
	PlanMade         uint64            `json:"plan_made"`         // images decoded ahead along plans
	PlanUseful       uint64            `json:"plan_useful"`
	PlanWasted       uint64            `json:"plan_wasted"`         // left by their readers
	PlanFailed       uint64            `json:"plan_failed"`         // lines, those among them that lead to no file
	Plans            int               `json:"plans"`               // of the moment
	StreamOpens      uint64            `json:"stream_opens"`        // of shards
	StreamImages     uint64            `json:"stream_images"`       // that were read from shards, whether decoded for that or not
	StreamDamaged    uint64            `json:"stream_damaged"`      // in whose place a text stands
	StreamAheadMade  uint64            `json:"stream_ahead_made"`   // images decoded ahead of readers of shards
	StreamAheadUse   uint64            `json:"stream_ahead_useful"` // of them, read since
	StreamAheadWaste uint64            `json:"stream_ahead_wasted"` // of them, left by their reader
	Requests         map[string]uint64 `json:"requests"`
	Backend          string            `json:"backend"` // what decodes now: cuda, or of the CPU avx2 or go
	Device           DeviceStats       `json:"device"`
	Medium           string            `json:"medium"`      // where buffers live: tmpfs, memfd or memory
	Passthrough      any               `json:"passthrough"` // true, or why not
	RegisterFailures uint64            `json:"register_failures"`
	Memory           MemoryUse         `json:"memory"`
	LookupsHeld      int64             `json:"lookups_held"`          // of inodes that the kernel has not forgotten
	NamesHeld        int               `json:"names_held"`            // inodes that the kernel has not forgotten
	NamesLimit       int               `json:"names_limit"`           // beyond which it is asked to
	NamesAsked       uint64            `json:"names_asked_to_forget"` // as often as it was
	NamesTold        uint64            `json:"names_told"`            // with their attributes, by listings
	Goroutines       int               `json:"goroutines"`
	UptimeSeconds    int64             `json:"uptime_s"`
}

func (m *mount) stats() Stats {
	c := m.cacheStats()
	d := m.decoder.Stats()
	s := m.ds.Stats()
	out := Stats{
		Served:           m.served.Load(),
		Decoded:          d.Decoded,
		CacheHits:        c.Hits,
		CacheMisses:      c.Misses,
		CacheEvictions:   c.Evictions,
		CacheBytes:       c.Bytes,
		PinnedBytes:      c.PinnedBytes,
		CacheKept:        c.KeptBytes,
		CacheBudget:      c.Budget,
		CacheLimit:       c.Limit,
		CacheBuffers:     c.Buffers,
		StoreBytesRead:   s.StoreBytesRead,
		StoreBytesNeeded: s.StoreBytesNeeded,
		StoreBytesIndex:  s.StoreBytesIndex,
		StoreNS:          m.storeNS.Load(),
		Errors:           m.errors.Load(),
		SourceGone:       m.gone.why() != "",
		Panics:           m.panics.Load(),
		SlowRequests:     m.layer.flight.slow.Load(),
		LeftOut:          s.Specials + s.BrokenLinks,
		Batches:          d.Batches,
		BatchImages:      d.BatchImages,
		WaitNS:           d.WaitNS,
		DecodeNS:         d.DecodeNS,
		Helpers:          d.Helpers,
		Tolerated:        d.Tolerated,
		Requests:         m.layer.requestCounts(),
		Backend:          d.Backend,
		Device:           deviceStats(d.Device),
		Medium:           m.medium,
		Passthrough:      m.passthrough,
		RegisterFailures: c.RegisterFailures,
		Memory:           memoryUse(c),
		LookupsHeld:      m.layer.names.lookups.Load(),
		NamesAsked:       m.layer.names.asked.Load(),
		NamesTold:        m.layer.told.Load(),
		Goroutines:       runtime.NumGoroutine(),
		UptimeSeconds:    int64(time.Since(m.started).Seconds()),
	}
	out.Memory.Request = int64(m.sizes.request)
	if m.ahead != nil {
		a := m.ahead.Stats()
		out.ReadAheadMade, out.ReadAheadUseful, out.ReadAheadWasted = a.Made, a.Useful, a.Wasted
	}
	out.NamesHeld, out.NamesLimit, _ = m.layer.names.held()
	m.echoStats(&out)
	p := m.plans.stats()
	out.PlanMade, out.PlanUseful, out.PlanWasted, out.PlanFailed = p.Made, p.Useful, p.Wasted, p.Failed
	out.Plans = len(m.plans.all())
	m.streams.countInto(&out)
	if d.Device.State == gpudecode.DeviceUp {
		out.Device.Health = m.health.read(m.decoder.DeviceHealth)
	}
	if !m.passthrough {
		out.Passthrough = m.noPassthrough
	}
	return out
}

func (m *mount) echoStats(out *Stats) {
	e, views := m.echo.stats()
	out.EchoFresh, out.EchoEchoes = e.Fresh, e.Echoes
	out.EchoEarly, out.EchoLate, out.EchoForced = e.Early, e.Late, e.Forced
	out.EchoRepeats, out.EchoLost = e.Repeats, e.Lost
	out.EchoBuffered, out.EchoBytes, out.EchoViews = e.Buffered, e.Bytes, views
}

func (m *mount) cacheStats() cache.Stats { return m.cache.Stats() }

func (m *mount) statsText() string { return jsonText(m.stats()) }

// versionText names this version, and the library that pixels of JPEGs come from:
// what it makes of incomplete ones differs between its versions.
func (m *mount) versionText() string {
	return m.opt.Version + "\n" + gpudecode.JPEGLibrary() + "\n"
}

// configText tells how the mount was made.
func (m *mount) configText() string {
	return jsonText(map[string]any{
		"source":                 m.opt.Source,
		"mountpoint":             m.opt.Mountpoint,
		"view":                   m.opt.View.String(),
		"cache_bytes":            m.cacheStats().Budget,
		"cache_policy":           m.opt.CachePolicy.String(),
		"backend":                m.opt.Backend.String(),
		"device":                 m.opt.Device,
		"read_ahead":             max(m.opt.ReadAhead, 0),
		"allow_other":            m.opt.AllowOther,
		"entry_timeout_s":        m.opt.EntryTimeout.Seconds(),
		"attr_timeout_s":         m.opt.AttrTimeout.Seconds(),
		"pid":                    m.pid,
		"forced_fallbacks":       m.opt.Force.String(),
		"socket":                 m.socket.address(),
		"keep_duplicates":        m.opt.KeepDuplicates,
		"tolerate_jpeg_warnings": m.opt.TolerateJPEGWarnings,
		"throttle_bytes_per_s":   m.opt.Throttle,
	})
}
