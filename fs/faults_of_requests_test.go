package fs

import (
	"bytes"
	"context"
	"log/slog"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"prismfs/dataset"
)

// lockedBuffer is a log that is read while it is written.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// trickStore does something before it describes or opens a file whose name says so.
type trickStore struct {
	dataset.Store
	before func(operation, path string)
}

func (s trickStore) Stat(ctx context.Context, path string) (dataset.Info, error) {
	s.before("stat", path)
	return s.Store.Stat(ctx, path)
}

func (s trickStore) Open(ctx context.Context, path string) (dataset.File, error) {
	s.before("open", path)
	return s.Store.Open(ctx, path)
}

// servedMount mounts in this process, which must never touch the mount.
func servedMount(t *testing.T, before func(operation, path string)) (m *mount, dir string, log *lockedBuffer) {
	t.Helper()
	if remedy, err := TryFuse(); err != nil {
		t.Skipf("FUSE is not available here: %v; %s", err, remedy)
	}
	source := t.TempDir()
	for _, name := range []string{"good.l3", "bad.l3", "held.l3"} {
		writeSample(t, filepath.Join(source, "cat", name), rgb8, "")
	}
	store, err := dataset.OpenLocal(source)
	if err != nil {
		t.Fatal(err)
	}
	log = new(lockedBuffer)
	dir = t.TempDir()
	opt := Options{Source: source, Mountpoint: dir, View: DefaultView, CacheBytes: 64 << 20, ReadAhead: -1,
		Logger: slog.New(slog.NewTextHandler(log, nil)), TableDir: dataset.NoTables}
	setDefaults(&opt)
	if m, err = newMount(opt, trickStore{store, before}); err != nil {
		t.Fatal(err)
	}
	server, err := m.serve()
	if err != nil {
		t.Fatal(err)
	}
	mounted := &Mounted{m: m, server: server}
	t.Cleanup(func() {
		if err := mounted.Unmount(); err != nil {
			t.Errorf("unmounting: %v", err)
			_ = detach(dir, true)
		}
	})
	return m, dir, log
}

func cat(path string) (string, error) {
	out, err := exec.Command("cat", path).CombinedOutput()
	return string(out), err
}

// TestPanicCostsItsRequest: a fault in the handling of a request is EIO for its
// reader, and nothing for others.
func TestPanicCostsItsRequest(t *testing.T) {
	var fault []int
	m, dir, log := servedMount(t, func(operation, path string) {
		if operation == "stat" && strings.HasSuffix(path, "bad.l3") {
			_ = fault[7]
		}
	})
	for range 2 {
		if said, err := cat(filepath.Join(dir, "cat", "bad.npy")); err == nil || !strings.Contains(said, "Input/output error") {
			t.Errorf("reading what panics: %v, %q", err, said)
		}
	}
	if got, err := cat(filepath.Join(dir, "cat", "good.npy")); err != nil || !strings.HasPrefix(got, "\x93NUMPY") {
		t.Errorf("reading another file: %v, %q", err, got)
	}
	if s := m.stats(); s.Panics < 2 || s.Errors < 2 {
		t.Errorf("panics %d, errors %d", s.Panics, s.Errors)
	}
	for _, want := range []string{"level=ERROR", "index out of range", "dirNode"} {
		if !strings.Contains(log.String(), want) || !strings.Contains(m.tail.String(), want) {
			t.Errorf("the log does not say %q:\n%s", want, log.String())
		}
	}
}

// TestSlowRequestsAreTold: readers wait for a source that does not answer, and one
// of them for the other.
func TestSlowRequestsAreTold(t *testing.T) {
	gate := make(chan struct{})
	open := sync.OnceFunc(func() { close(gate) })
	defer open()
	m, dir, log := servedMount(t, func(operation, path string) {
		// Its header has been read by the lookup, or will be.
		if operation == "open" && strings.HasSuffix(path, "held.l3") {
			<-gate
		}
	})
	warm := func(name string) {
		if _, err := cat(filepath.Join(dir, "cat", name)); err != nil {
			t.Fatal(err)
		}
	}
	warm("good.npy")
	path := filepath.Join(dir, "cat", "held.npy")
	var readers []*exec.Cmd
	for range 2 {
		r := exec.Command("cat", path)
		r.Stdout = new(bytes.Buffer)
		if err := r.Start(); err != nil {
			t.Fatal(err)
		}
		readers = append(readers, r)
	}
	deadline := time.Now().Add(20 * time.Second)
	for {
		waiting := 0
		m.layer.flight.all.Range(func(any, any) bool { waiting++; return true })
		if waiting > 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("nobody waits")
		}
		time.Sleep(time.Millisecond)
	}
	m.tellSlow(time.Now())
	if strings.Contains(log.String(), "takes long") {
		t.Errorf("told too early: %s", log.String())
	}
	late := time.Now().Add(slowAfter + time.Second)
	m.tellSlow(late)
	told := log.String()
	for _, want := range []string{"a request takes long", "path=cat/held", "the source"} {
		if !strings.Contains(told, want) {
			t.Errorf("the log does not say %q:\n%s", want, told)
		}
	}
	m.tellSlow(late)
	if again := log.String(); strings.Count(again, "takes long") > len(readers) {
		t.Errorf("told more than once:\n%s", again)
	}
	open()
	for _, r := range readers {
		if err := r.Wait(); err != nil || !strings.HasPrefix(r.Stdout.(*bytes.Buffer).String(), "\x93NUMPY") {
			t.Errorf("a reader that had to wait: %v", err)
		}
	}
	if n := m.stats().SlowRequests; n == 0 || n > uint64(len(readers)) {
		t.Errorf("%d slow requests", n)
	}
}

// TestSlowReadsOfShardsAreTold: a shard is made while it is read, so that it is a
// read that waits.
func TestSlowReadsOfShardsAreTold(t *testing.T) {
	gate := make(chan struct{})
	open := sync.OnceFunc(func() { close(gate) })
	defer open()
	var armed, held atomic.Bool
	m, dir, log := servedMount(t, func(operation, path string) {
		if armed.Load() && operation == "open" && strings.HasSuffix(path, "held.l3") {
			held.Store(true)
			<-gate
		}
	})
	shard := filepath.Join(dir, "+stream", "epoch-0000", "000000.tar")
	if out, err := exec.Command("stat", shard).CombinedOutput(); err != nil { // the headers are read
		t.Fatalf("%v: %s", err, out)
	}
	armed.Store(true)
	r := exec.Command("cat", shard)
	if err := r.Start(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the read", held.Load) // which is told of once, whatever it waits for
	late := time.Now().Add(slowAfter + time.Second)
	waitFor(t, "a line about the read", func() bool {
		m.tellSlow(late)
		return strings.Contains(log.String(), `doing=read path=+stream/epoch-0000/000000.tar waits_for="the source`)
	})
	open()
	if err := r.Wait(); err != nil {
		t.Error(err)
	}
}

func TestWhatRequestsWaitFor(t *testing.T) {
	m, _, _ := servedMount(t, func(string, string) {})
	for _, c := range []struct {
		q    *pending
		want string
	}{
		{&pending{waits: forSource}, "the source"},
		{&pending{waits: forDecoder}, "the decoder"},
		{&pending{waits: forTurn, bytes: 1000}, "somebody else who decodes"},
		{&pending{waits: forTurn, bytes: 1 << 40}, "room in the cache: 0 B of"},
	} {
		if got := m.whatFor(c.q); !strings.Contains(got, c.want) {
			t.Errorf("%d waits for %q, want %q", c.q.waits, got, c.want)
		}
	}
	var none *pending
	none.waitsFor(forTurn, 1) // of what is done ahead, for nobody
	if m.layer.flight.of(nil) != nil || m.layer.flight.of(make(chan struct{})) != nil {
		t.Error("a request was found that there is not")
	}
}
