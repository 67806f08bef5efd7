package fs

import (
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

	mu    sync.Mutex
	most  int // no bound while it is 0
	gone  uint64
	nodes map[uint64]rememberedNode
}

type rememberedNode struct {
	lookups uint64
	parent  uint64 // 0 of a folder, which is needed by what is below it
	name    string // which go-fuse keeps anyway
}

func newRemembered() *remembered {
	return &remembered{over: make(chan struct{}, 1), nodes: make(map[uint64]rememberedNode)}
}

// limit sets the bound.
func (r *remembered) limit(names int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.most = names
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
		select {
		case r.over <- struct{}{}:
		default:
		}
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

// surplus picks nodes that should be forgotten: any, as a map has it.
func (r *remembered) surplus() map[uint64]rememberedNode {
	r.mu.Lock()
	defer r.mu.Unlock()
	want := len(r.nodes) - (r.most - r.most/forgetShare)
	if r.most == 0 || len(r.nodes) <= r.most {
		return nil
	}
	picked := make(map[uint64]rememberedNode, want)
	for node, n := range r.nodes {
		if len(picked) == want {
			break
		}
		if n.parent != 0 {
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
		if _, _, now := m.layer.names.held(); now-before < uint64(asked)/2 {
			pause = min(2*pause, longForgetPause)
		} else {
			pause = forgetPause
		}
	}
}

// askToForget asks for the surplus: at once where the kernel can be (Linux 6.18),
// else name by name.
func (r *remembered) askToForget(kernel forgetter) (asked int) {
	nodes := make([]uint64, 0, pruneNodes)
	one := false
	prune := func() {
		if len(nodes) > 0 && !one {
			one = kernel.PruneNotify(nodes) == fuse.ENOSYS
		}
	}
	surplus := r.surplus()
	r.asked.Add(uint64(len(surplus)))
	for node := range surplus {
		if nodes = append(nodes, node); len(nodes) == pruneNodes {
			prune()
			nodes = nodes[:0]
		}
		if one {
			break
		}
	}
	prune()
	for _, n := range surplus {
		if !one {
			break
		}
		kernel.EntryNotify(n.parent, n.name)
	}
	return len(surplus)
}
