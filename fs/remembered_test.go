package fs

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// forgetful is a kernel that forgets what it is asked to, but for what is in use.
type forgetful struct {
	mu    sync.Mutex
	names *remembered
	old   bool // it knows no message for nodes
	used  map[uint64]bool
	asked map[uint64]bool // nodes
	told  map[string]bool // names
	child map[string]uint64
}

func (k *forgetful) PruneNotify(nodes []uint64) fuse.Status {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.old {
		return fuse.ENOSYS
	}
	for _, node := range nodes {
		k.asked[node] = true
		if !k.used[node] {
			k.names.forgot(node, 1)
		}
	}
	return fuse.OK
}

func (k *forgetful) EntryNotify(parent uint64, name string) fuse.Status {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.told[fmt.Sprint(parent, "/", name)] = true
	k.names.forgot(k.child[name], 1)
	return fuse.OK
}

func newForgetful(names *remembered, old bool) *forgetful {
	return &forgetful{names: names, old: old, used: map[uint64]bool{}, asked: map[uint64]bool{}, told: map[string]bool{}, child: map[string]uint64{}}
}

func lookedUpNames(r *remembered, k *forgetful, from, to int) {
	for i := from; i < to; i++ {
		out := fuse.EntryOut{NodeId: uint64(100 + i)}
		name := fmt.Sprint("name", i)
		k.child[name] = out.NodeId
		r.lookedUp(7, name, &out)
	}
}

// A kernel that remembers more than there is room for is asked to forget, by nodes or,
// where it does not know how, by names.
func TestNamesAreBounded(t *testing.T) {
	for _, old := range []bool{false, true} {
		r := newRemembered()
		r.limit(1600)
		k := newForgetful(r, old)
		r.byName.Store(old)
		lookedUpNames(r, k, 0, 1600)
		select {
		case <-r.over:
			t.Error("there are not too many yet")
		default:
		}
		lookedUpNames(r, k, 1600, 5000)
		select {
		case <-r.over:
		default:
			t.Fatal("nobody is told that there are too many")
		}
		if asked := r.askToForget(k); asked != 3500 {
			t.Errorf("old %v: the kernel is asked to forget %d names, want 3500", old, asked)
		}
		held, most, gone := r.held()
		if held != 1500 || most != 1600 || gone != 3500 || r.lookups.Load() != 1500 || r.asked.Load() != 3500 {
			t.Errorf("old %v: %d names of %d are held, %d are gone", old, held, most, gone)
		}
		if old != (len(k.told) == 3500) || old != (len(k.asked) == 0) {
			t.Errorf("old %v: asked for %d nodes and %d names", old, len(k.asked), len(k.told))
		}
		if r.askToForget(k) != 0 {
			t.Error("the kernel is asked again for nothing")
		}
	}
}

// A kernel that is told to forget a name waits for who looks for another one in its
// folder, so names of other folders come first.
func TestNamesOfQuietFoldersAreForgotten(t *testing.T) {
	const quiet, busy = 7, 8
	lookUp := func(r *remembered, parent uint64, from, to int) {
		for i := from; i < to; i++ {
			r.looksInto(parent)
			r.lookedUp(parent, fmt.Sprint(i), &fuse.EntryOut{NodeId: uint64(100 + i)})
		}
	}
	r := newRemembered()
	r.limit(160)
	r.byName.Store(true)
	k := newForgetful(r, true)
	lookUp(r, quiet, 0, 100)
	r.looks[quiet] = time.Now().Add(-quietFor)
	lookUp(r, busy, 100, 200)
	if asked := r.askToForget(k); asked != 50 {
		t.Errorf("asked for %d names, want 50", asked)
	}
	for name := range k.told {
		if !strings.HasPrefix(name, "7/") {
			t.Errorf("asked for %s, of a folder in which somebody looks", name)
		}
	}
	lookUp(r, busy, 200, 161*busyShare)
	r.looks[quiet] = time.Now()
	if asked := r.askToForget(k); asked != 161*busyShare-150 {
		t.Errorf("asked for %d of far too many names, want %d", asked, 161*busyShare-150)
	}
	r.lookedUp(1, "folder", &fuse.EntryOut{NodeId: busy, Attr: fuse.Attr{Mode: fuse.S_IFDIR}})
	r.forgot(busy, 1)
	if _, ok := r.looks[busy]; ok {
		t.Error("a folder that is gone is remembered")
	}
	r.byName.Store(false)
	r.looksInto(9)
	if _, ok := r.looks[9]; ok {
		t.Error("looks are remembered for a kernel that forgets nodes")
	}
}

// Folders are not asked for: they are needed by what is in them.
func TestFoldersAreKept(t *testing.T) {
	r := newRemembered()
	r.limit(64)
	k := newForgetful(r, false)
	for i := range 100 {
		r.lookedUp(1, fmt.Sprint(i), &fuse.EntryOut{NodeId: uint64(10_000 + i), Attr: fuse.Attr{Mode: fuse.S_IFDIR | 0o755}})
	}
	if asked := r.askToForget(k); asked != 0 {
		t.Errorf("%d folders are to be forgotten", asked)
	}
	lookedUpNames(r, k, 0, 10)
	r.askToForget(k)
	if held, _, _ := r.held(); held != 100 || len(k.asked) != 10 {
		t.Errorf("%d are held, want the 100 folders; asked for %v", held, maps.Keys(k.asked))
	}
}

// A name that was looked up several times is held until all of it is taken back.
func TestNamesAreCounted(t *testing.T) {
	r := newRemembered()
	for range 3 {
		r.lookedUp(1, "a", &fuse.EntryOut{NodeId: 5})
	}
	r.forgot(5, 2)
	if held, _, _ := r.held(); held != 1 || r.lookups.Load() != 1 {
		t.Errorf("%d names are held, of %d lookups", held, r.lookups.Load())
	}
	r.forgot(5, 1)
	r.forgot(6, 0)
	if held, _, _ := r.held(); held != 0 || r.lookups.Load() != 0 {
		t.Errorf("%d names are held, of %d lookups", held, r.lookups.Load())
	}
}

// Nobody has to ask for it, and it ends with the mount.
func TestNamesAreBoundedByThemselves(t *testing.T) {
	source := t.TempDir()
	for i := range 40 {
		if err := os.WriteFile(filepath.Join(source, fmt.Sprint("name", i)), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	m := spokenMount(t, source)
	m.layer.names.limit(20)
	k := newForgetful(m.layer.names, false)
	ended := make(chan struct{})
	go func() {
		m.boundNames(k, Fallbacks{})
		close(ended)
	}()
	for i := range 40 {
		lookUp(t, m, fmt.Sprint("name", i))
	}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		if held, _, _ := m.layer.names.held(); held <= 20 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("nothing is forgotten")
		}
	}
	close(m.closing)
	<-ended
}

// The bound follows the cache's budget.
func TestNamesFor(t *testing.T) {
	for budget, want := range map[int64]int{0: leastNames, 64 << 20: leastNames, 8 << 30: 1 << 20} {
		if got := namesFor(budget, Fallbacks{}); got != want {
			t.Errorf("%d names beside %d bytes, want %d", got, budget, want)
		}
	}
}
