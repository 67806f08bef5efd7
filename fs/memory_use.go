package fs

import (
	"math"
	"os"
	"runtime/debug"
	"runtime/metrics"

	"prismfs/cache"
)

// goHeapShare and minGoHeap: beside the cache, whose pages are none of the Go
// heap's, the daemon's own memory may come near 1/8 of the cache's budget, and
// near minGoHeap in any case, before the collector works harder. Headers, tables,
// nodes and the encoded bytes of what is being decoded live there. Where cache and
// pins leave less of what is free, as in a small container, it is held to that,
// and to leastGoHeap at the least.
const (
	goHeapShare = 8
	minGoHeap   = 256 << 20
	leastGoHeap = 32 << 20
)

// LimitHeap tells Go's collector how much memory the daemon of a mount with such a
// cache should keep to, unless the environment says it (GOMEMLIMIT). It is for
// the process that serves one mount and nothing else.
func LimitHeap(cacheBytes int64) {
	if os.Getenv("GOMEMLIMIT") == "" {
		free := int64(math.MaxInt64)
		if mem, err := cache.ReadMemory(); err == nil {
			free = mem.Free()
		}
		debug.SetMemoryLimit(heapLimit(cacheBytes, free))
	}
}

func heapLimit(cacheBytes, free int64) int64 {
	left := free - tmpfsSize(cacheBytes) - restBytes/2 // not all of the rest is Go's
	return max(min(max(cacheBytes/goHeapShare, minGoHeap), left), leastGoHeap)
}

// raiseHeapLimit keeps the limit above what is alive: names that the kernel
// remembers are, and with the limit below them the collector would do nothing but
// collect in vain.
func raiseHeapLimit() {
	limit := debug.SetMemoryLimit(-1)
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	if limit == math.MaxInt64 || os.Getenv("GOMEMLIMIT") != "" || sample[0].Value.Kind() != metrics.KindUint64 {
		return
	}
	debug.SetMemoryLimit(nextHeapLimit(limit, int64(sample[0].Value.Uint64())))
}

// nextHeapLimit leaves a third of the limit for garbage.
func nextHeapLimit(limit, live int64) int64 { return max(limit, live/2*3) }

// MemoryUse says what memory is used for, in bytes.
type MemoryUse struct {
	Cache       int64 `json:"cache"`        // decoded files, fills that run included
	Pinned      int64 `json:"pinned"`       // of it, open, mapped or kept for echoes
	Heap        int64 `json:"heap"`         // Go's: headers, tables, inodes, encoded bytes
	HeapLive    int64 `json:"heap_live"`    // of it, in use when the collector last looked; the rest is garbage, or free
	HeapLimit   int64 `json:"heap_limit"`   // that the collector keeps to
	Request     int64 `json:"request"`      // the largest read: the heap has as much for each that goes on
	MachineFree int64 `json:"machine_free"` // what could be taken without swapping
	CgroupFree  int64 `json:"cgroup_free"`  // what the tightest memory cgroup leaves; −1 without a limit
}

// memoryUse asks what memory is used for now.
func memoryUse(c cache.Stats) MemoryUse {
	use := MemoryUse{Cache: c.Bytes, Pinned: c.PinnedBytes, HeapLimit: debug.SetMemoryLimit(-1), CgroupFree: -1, MachineFree: -1}
	sample := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}, {Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	if sample[2].Value.Kind() == metrics.KindUint64 {
		use.HeapLive = int64(sample[2].Value.Uint64())
	}
	if sample[0].Value.Kind() == metrics.KindUint64 && sample[1].Value.Kind() == metrics.KindUint64 {
		use.Heap = int64(sample[0].Value.Uint64() - sample[1].Value.Uint64())
	}
	if mem, err := cache.ReadMemory(); err == nil {
		use.MachineFree = mem.Available
		if mem.CgroupLimited() {
			use.CgroupFree = mem.CgroupFree
		}
	}
	return use
}

// pinAlarmAfter is for how many looks in a row open files must hold more than
// the budget before somebody is told: a loader that has many of them open for a
// moment is in no trouble.
const pinAlarmAfter = 10

// pinAlarm notices that files which are open or mapped have used up the cache, so
// that what is opened next may have to wait, or fail.
type pinAlarm struct{ looks int }

// look is called now and then; it reports true once for each time that the
// budget stays used up.
func (a *pinAlarm) look(pinned, budget int64) bool {
	if pinned <= budget {
		a.looks = 0
		return false
	}
	a.looks++
	return a.looks == pinAlarmAfter
}
