package fs

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// The kernel remembers every name that was looked up until it needs the memory
// itself, which may be never; and for as long as it does, there is a node here. A
// walk over a million names would thus take a gigabyte of the daemon, for good. So
// there is a bound, and beyond it the kernel is asked to forget some names: any
// ones, since whoever goes through more names than there is room for, again and
// again, would find just those gone that were looked up longest ago.

const (
	// nodeBytes is what a node costs the daemon, beside its header, which the dataset
	// remembers within a bound of its own.
	nodeBytes = 1 << 10
	// Nodes may take 1/namesShare of the cache's budget, and leastNames may be
	// there in any case.
	namesShare  = 8
	leastNames  = 64 << 10
	forcedNames = 1000
	// Who is over the bound is brought 1/forgetShare below it.
	forgetShare = 16
	// The kernel forgets soon, not at once: it is given so much time before it is
	// asked again, and more where that brought nothing, names being in use.
	forgetPause     = 100 * time.Millisecond
	longForgetPause = 10 * time.Second
	// pruneNodes is how many nodes go into one message.
	pruneNodes = 512
	// A kernel before Linux 6.18 that is told to forget a name waits for whoever looks for
	// another one in its folder, and deaf to every signal: a daemon that is killed in such a
	// wait never ends, nor does who waits for it. So it is asked for names of folders in
	// which nobody has looked for quietFor, but where there are busyShare as many as
	// there should be.
	quietFor  = time.Second
	busyShare = 2
)

// namesFor is how many names may be remembered beside a cache.
func namesFor(cacheBytes int64, force Fallbacks) int {
	if force.FewNames {
		return forcedNames
	}
	return int(max(cacheBytes/namesShare/nodeBytes, leastNames))
}

// remembered are the nodes that the kernel has not forgotten.
type remembered struct {
	lookups atomic.Int64 // that have not been taken back
	asked   atomic.Uint64
	over    chan struct{} // has one element when there are too many
	byName  atomic.Bool   // the kernel forgets names, not nodes

	mu    sync.Mutex
	most  int // no bound while it is 0
	gone  uint64
	nodes map[uint64]rememberedNode
	looks map[uint64]time.Time // when somebody last looked into a folder, if byName
}

type rememberedNode struct {
	lookups uint64
	parent  uint64 // 0 of a folder, which is needed by what is below it
	name    string // which go-fuse keeps anyway
}

func newRemembered() *remembered {
	return &remembered{over: make(chan struct{}, 1), nodes: make(map[uint64]rememberedNode), looks: make(map[uint64]time.Time)}
}

// limit sets the bound.
func (r *remembered) limit(names int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.most = names
}

// looksInto books that somebody asks for a name of a folder, or for all.
func (r *remembered) looksInto(folder uint64) {
	if !r.byName.Load() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.looks[folder] = time.Now()
}

// lookedUp books what the kernel is told of a name.
func (r *remembered) lookedUp(parent uint64, name string, out *fuse.EntryOut) {
	r.lookups.Add(1)
	r.mu.Lock()
	defer r.mu.Unlock()
	n, known := r.nodes[out.NodeId]
	if !known && out.Attr.Mode&fuse.S_IFDIR == 0 {
		n.parent, n.name = parent, name
	}
	n.lookups++
	r.nodes[out.NodeId] = n
	if r.most > 0 && len(r.nodes) > r.most {
		r.tell()
	}
}

// forgot books what the kernel takes back.
func (r *remembered) forgot(node, lookups uint64) {
	r.lookups.Add(-int64(lookups))
	r.mu.Lock()
	defer r.mu.Unlock()
	n, ok := r.nodes[node]
	if !ok {
		return
	}
	if n.lookups <= lookups {
		delete(r.nodes, node)
		delete(r.looks, node)
		r.gone++
		return
	}
	n.lookups -= lookups
	r.nodes[node] = n
}

// held returns how many nodes there are, how many there should be at most, and how
// many are gone.
func (r *remembered) held() (nodes, most int, gone uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.nodes), r.most, r.gone
}

// surplus picks nodes that should be forgotten: any, as a map has it, or any in folders
// that are quiet. A kernel that forgets nodes waits for nobody who looks; but for pages
// that its read-ahead of a file has asked for which was closed before they came.
func (r *remembered) surplus() map[uint64]rememberedNode {
	r.mu.Lock()
	defer r.mu.Unlock()
	want := len(r.nodes) - (r.most - r.most/forgetShare)
	if r.most == 0 || len(r.nodes) <= r.most {
		return nil
	}
	picked, now := make(map[uint64]rememberedNode, want), time.Now()
	for node, n := range r.nodes {
		if len(picked) == want {
			break
		}
		if n.parent != 0 && (now.Sub(r.looks[n.parent]) >= quietFor || len(r.nodes) > busyShare*r.most) {
			picked[node] = n
		}
	}
	return picked
}

// forgetter asks the kernel: fuse.Server does.
type forgetter interface {
	PruneNotify(nodes []uint64) fuse.Status
	EntryNotify(parent uint64, name string) fuse.Status
}

// namesOnly is a kernel before Linux 6.18.
type namesOnly struct{ forgetter }

func (namesOnly) PruneNotify([]uint64) fuse.Status { return fuse.ENOSYS }

// boundNames keeps the number of names near its bound, until the mount is gone. It
// is nobody's request: a kernel that is told to forget a name waits for those who
// just look for another one in its folder.
func (m *mount) boundNames(kernel forgetter, force Fallbacks) {
	if force.NoPrune {
		kernel = namesOnly{kernel}
	}
	m.layer.names.byName.Store(kernel.PruneNotify(nil) == fuse.ENOSYS)
	pause := forgetPause
	for {
		select {
		case <-m.closing:
			return
		case <-m.layer.names.over:
		}
		_, _, before := m.layer.names.held()
		asked := m.layer.names.askToForget(kernel)
		select {
		case <-m.closing:
			return
		case <-time.After(pause):
		}
		held, most, now := m.layer.names.held()
		switch {
		case asked == 0 && held > most: // all are in folders that are not quiet
			pause = quietFor
			m.layer.names.tell()
		case now-before < uint64(asked)/2:
			pause = min(2*pause, longForgetPause)
		default:
			pause = forgetPause
		}
	}
}

// tell says that there are too many names.
func (r *remembered) tell() {
	select {
	case r.over <- struct{}{}:
	default:
	}
}

// askToForget asks for the surplus: at once where the kernel can be (Linux 6.18),
// else name by name.
func (r *remembered) askToForget(kernel forgetter) (asked int) {
	surplus := r.surplus()
	r.asked.Add(uint64(len(surplus)))
	if r.byName.Load() {
		for _, n := range surplus {
			kernel.EntryNotify(n.parent, n.name)
		}
		return len(surplus)
	}
	for nodes := range slices.Chunk(slices.Collect(maps.Keys(surplus)), pruneNodes) {
		kernel.PruneNotify(nodes)
	}
	return len(surplus)
}
