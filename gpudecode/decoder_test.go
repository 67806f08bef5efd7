package gpudecode

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"prismfs/l3"
)

// quiet is a logger that says nothing.
var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// invert stands for a codec: samples are the encoded bytes, inverted.
func invert(_ *place, r *Request) error {
	if len(r.Pix) != len(r.Encoded) {
		return errors.New("bad image")
	}
	for i, b := range r.Encoded {
		r.Pix[i] = ^b
	}
	return nil
}

// gate stands for a codec that says when it begins and waits to be let on.
type gate struct {
	begun chan string   // names, in the order of decoding
	pass  chan struct{} // one message lets one decoding end; closed by open: all
	open  func()
}

// startGate starts a Decoder that decodes through a gate. Both are opened and
// closed when the test ends, if it does not do so itself.
func startGate(t *testing.T, workers int) (*Decoder, *gate) {
	g := &gate{begun: make(chan string, 1000), pass: make(chan struct{})}
	g.open = sync.OnceFunc(func() { close(g.pass) })
	d := start(Options{Workers: workers, Logger: quiet}, g.decode)
	t.Cleanup(d.Close)
	t.Cleanup(g.open) // first
	return d, g
}

func (g *gate) decode(p *place, r *Request) error {
	g.begun <- r.Name
	<-g.pass
	return invert(p, r)
}

// decoding is a call of Decode that goes on.
type decoding struct {
	request *Request
	result  chan error
}

func decodeAsync(ctx context.Context, d *Decoder, name string) decoding {
	x := decoding{&Request{Codec: L3, Name: name, Encoded: []byte(name), Pix: make([]byte, len(name))}, make(chan error, 1)}
	go func() { x.result <- d.Decode(ctx, x.request) }()
	return x
}

// waitQueued returns when n requests are in the queue.
func waitQueued(t *testing.T, d *Decoder, n int) {
	t.Helper()
	waitFor(t, fmt.Sprintf("%d requests in the queue", n), func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.queue.len == n
	})
}

// waitFor returns when the condition holds. The time is no more than a bound on
// how long a test that fails takes.
func waitFor(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !holds(); {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
		runtime.Gosched()
		time.Sleep(100 * time.Microsecond)
	}
}

// checkNoGoroutines fails the test when goroutines that run this package's
// workers are left.
func checkNoGoroutines(t *testing.T) {
	t.Helper()
	buf := make([]byte, 1<<20)
	waitFor(t, "the workers to end", func() bool {
		return !bytes.Contains(buf[:runtime.Stack(buf, true)], []byte("gpudecode.(*Decoder).work"))
	})
}

func TestDecodeManyGoroutines(t *testing.T) {
	const goroutines, each = 32, 50
	var inside, most atomic.Int64
	d := start(Options{Workers: 3, Logger: quiet}, func(p *place, r *Request) error {
		now := inside.Add(1)
		defer inside.Add(-1)
		for {
			m := most.Load()
			if now <= m || most.CompareAndSwap(m, now) {
				break
			}
		}
		return invert(p, r)
	})
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			for i := range each {
				bad := (g+i)%10 == 0
				r := &Request{Codec: L3, Name: fmt.Sprint(g, "/", i), Encoded: []byte(fmt.Sprint(g, i))}
				r.Pix = make([]byte, len(r.Encoded))
				if bad {
					r.Pix = nil
				}
				err := d.Decode(t.Context(), r)
				if bad {
					if err == nil || !strings.Contains(err.Error(), r.Name) {
						t.Errorf("bad image %s: error %v does not name it", r.Name, err)
					}
					continue
				}
				if err != nil {
					t.Errorf("%s: %v", r.Name, err)
				}
				for k, b := range r.Encoded {
					if r.Pix[k] != ^b {
						t.Errorf("%s: wrong samples", r.Name)
						break
					}
				}
			}
		})
	}
	wg.Wait()
	d.Close()
	checkNoGoroutines(t)

	s := d.Stats()
	const total, bad = goroutines * each, goroutines * each / 10
	if s.Decoded != total-bad || s.Errors != bad || s.BatchImages != total || s.Dropped != 0 || s.Panics != 0 {
		t.Errorf("counters do not add up: %+v", s)
	}
	if s.Batches != s.BatchImages {
		t.Errorf("%d batches for %d images", s.Batches, s.BatchImages)
	}
	if s.Backend != l3.NewDecoder(l3.DefaultLimits).Backend() || s.DecodeNS == 0 {
		t.Errorf("counters missing: %+v", s)
	}
	if m := most.Load(); m > 3 {
		t.Errorf("%d images at a time with 3 workers", m)
	}
}

// TestOrderOfArrival: what comes while all places are taken is decoded in the
// order in which it came.
func TestOrderOfArrival(t *testing.T) {
	const later = 6
	d, g := startGate(t, 1)
	all := []decoding{decodeAsync(t.Context(), d, "first")}
	<-g.begun
	for i := range later {
		all = append(all, decodeAsync(t.Context(), d, fmt.Sprint("later", i)))
		waitQueued(t, d, i+1)
	}
	g.open()
	for _, x := range all {
		if err := <-x.result; err != nil {
			t.Error(err)
		}
	}
	for i := range later {
		if name := <-g.begun; name != fmt.Sprint("later", i) {
			t.Errorf("%s was decoded as number %d", name, i)
		}
	}
	if s := d.Stats(); s.BatchImages != later+1 || s.WaitNS == 0 {
		t.Errorf("%+v, want %d images that waited", s, later+1)
	}
}

// TestAloneByItsCaller: a request that comes alone wakes nobody.
func TestAloneByItsCaller(t *testing.T) {
	var stack string
	d := start(Options{Workers: 2, Logger: quiet}, func(p *place, r *Request) error {
		stack = string(debug.Stack())
		return invert(p, r)
	})
	defer d.Close()
	r := &Request{Codec: L3, Name: "alone", Encoded: []byte("alone"), Pix: make([]byte, 5)}
	if err := d.Decode(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(stack, "TestAloneByItsCaller") {
		t.Errorf("it was decoded by another goroutine:\n%s", stack)
	}
	quick := start(Options{Workers: 2, Logger: quiet}, invert)
	defer quick.Close()
	if n := testing.AllocsPerRun(100, func() { _ = quick.Decode(t.Context(), r) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestBurstIsShared: no worker takes what another could begin with.
func TestBurstIsShared(t *testing.T) {
	const workers = 4
	d, g := startGate(t, workers)
	var all []decoding
	for i := range workers {
		all = append(all, decodeAsync(t.Context(), d, fmt.Sprint("busy", i)))
		<-g.begun
	}
	for i := range workers {
		all = append(all, decodeAsync(t.Context(), d, fmt.Sprint("next", i)))
	}
	waitQueued(t, d, workers)
	for range workers {
		g.pass <- struct{}{}
	}
	// All begin, though none of them is let on.
	waitFor(t, "every worker to begin", func() bool { return len(g.begun) == workers })
	g.open()
	for _, x := range all {
		if err := <-x.result; err != nil {
			t.Error(err)
		}
	}
}

func TestCancelWhileWaiting(t *testing.T) {
	d, g := startGate(t, 1)
	busy := decodeAsync(t.Context(), d, "busy")
	<-g.begun
	ctx, cancel := context.WithCancel(t.Context())
	before := decodeAsync(t.Context(), d, "before")
	waitQueued(t, d, 1)
	impatient := decodeAsync(ctx, d, "impatient")
	waitQueued(t, d, 2)
	after := decodeAsync(t.Context(), d, "after")
	waitQueued(t, d, 3)

	cancel()
	err := <-impatient.result // although the worker is still busy
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "impatient") {
		t.Errorf("dropped request: %v", err)
	}
	waitQueued(t, d, 2)
	g.open()
	for _, x := range []decoding{busy, before, after} {
		if err := <-x.result; err != nil {
			t.Error(err)
		}
	}
	for _, want := range []string{"before", "after"} {
		if name := <-g.begun; name != want {
			t.Errorf("%s was decoded, want %s", name, want)
		}
	}
	if s := d.Stats(); s.Dropped != 1 || s.Decoded != 3 || s.Errors != 0 || s.BatchImages != 3 {
		t.Errorf("counters: %+v", s)
	}
}

// TestCancelWhileRunning: Decode returns only when the buffers are free.
func TestCancelWhileRunning(t *testing.T) {
	d, g := startGate(t, 1)
	ctx, cancel := context.WithCancel(t.Context())
	x := decodeAsync(ctx, d, "running")
	<-g.begun
	cancel()
	select {
	case err := <-x.result:
		t.Fatalf("Decode returned (%v) while its buffers were in use", err)
	case <-time.After(20 * time.Millisecond):
	}
	g.open()
	if err := <-x.result; err != nil {
		t.Errorf("a request that was decoded: %v", err)
	}
	if x.request.Pix[0] != ^byte('r') {
		t.Error("the samples are missing")
	}
}

func TestContextEndedBefore(t *testing.T) {
	d := start(Options{Workers: 1, Logger: quiet}, invert)
	defer d.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := <-decodeAsync(ctx, d, "late").result; !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if s := d.Stats(); s.BatchImages != 0 || s.Dropped != 0 {
		t.Errorf("counters: %+v", s)
	}
}

func TestCloseWhileBusy(t *testing.T) {
	d, g := startGate(t, 2)
	var all []decoding
	for i := range 2 {
		all = append(all, decodeAsync(t.Context(), d, fmt.Sprint("busy", i)))
		<-g.begun
	}
	for i := range 10 {
		all = append(all, decodeAsync(t.Context(), d, fmt.Sprint("waits", i)))
	}
	waitQueued(t, d, 10)

	var closers sync.WaitGroup
	for range 3 { // Close may be called more than once, at one time
		closers.Go(d.Close)
	}
	waitFor(t, "Close to begin", func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.closed
	})
	if err := <-decodeAsync(t.Context(), d, "late").result; !errors.Is(err, ErrClosed) {
		t.Errorf("a request after Close: %v", err)
	}
	g.open()
	for _, x := range all {
		if err := <-x.result; err != nil {
			t.Errorf("%s came before Close: %v", x.request.Name, err)
		}
	}
	closers.Wait()
	checkNoGoroutines(t)
	d.Close()
	if s := d.Stats(); s.Decoded != 12 {
		t.Errorf("%d decoded, want 12", s.Decoded)
	}
}

func TestPanicCostsItselfOnly(t *testing.T) {
	var log bytes.Buffer
	var decoders sync.Map
	d := start(Options{Workers: 1, Logger: slog.New(slog.NewTextHandler(&log, nil))}, func(p *place, r *Request) error {
		decoders.Store(r.Name, p.l3)
		if r.Name == "bad" {
			var none []byte
			_ = none[len(r.Encoded)]
		}
		return invert(p, r)
	})
	for _, name := range []string{"before", "bad", "after"} {
		err := <-decodeAsync(t.Context(), d, name).result
		if name != "bad" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		var panicked *PanicError
		if !errors.As(err, &panicked) || !strings.Contains(err.Error(), "bad") || !strings.Contains(err.Error(), "index out of range") {
			t.Errorf("a panic became %v", err)
		}
	}
	d.Close()
	if s := d.Stats(); s.Panics != 1 || s.Errors != 1 || s.Decoded != 2 {
		t.Errorf("counters: %+v", s)
	}
	for _, want := range []string{"image=bad", "index out of range", "decoder_test.go"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log lacks %q:\n%s", want, &log)
		}
	}
	before, _ := decoders.Load("before")
	bad, _ := decoders.Load("bad")
	after, _ := decoders.Load("after")
	if before != bad || bad == after {
		t.Error("scratch memory must be used again, but not after a panic")
	}
}

// TestCloseWithNothingLeft: the workers end although what they wait for is
// withdrawn while the decoder is being closed.
func TestCloseWithNothingLeft(t *testing.T) {
	d, g := startGate(t, 2)
	busy := []decoding{decodeAsync(t.Context(), d, "busy"), decodeAsync(t.Context(), d, "busy")}
	<-g.begun
	<-g.begun
	ctx, cancel := context.WithCancel(t.Context())
	waits := decodeAsync(ctx, d, "waits")
	waitQueued(t, d, 1)
	closed := make(chan struct{})
	go func() { d.Close(); close(closed) }()
	waitFor(t, "Close to begin", func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.closed
	})
	cancel()
	if err := <-waits.result; !errors.Is(err, context.Canceled) {
		t.Errorf("withdrawn: %v", err)
	}
	checkNoGoroutines(t)
	select {
	case <-closed:
		t.Error("Close returned while images were being decoded")
	default:
	}
	g.open()
	<-closed
	for _, x := range busy {
		if err := <-x.result; err != nil {
			t.Error(err)
		}
	}
}

// TestHelp: free places help with an image and leave it when a request waits.
func TestHelp(t *testing.T) {
	d := start(Options{Workers: 3, Logger: quiet}, invert)
	defer d.Close()
	d.mu.Lock()
	p := d.take()
	d.mu.Unlock()
	for _, want := range []bool{true, true, false} {
		if p.Join() != want {
			t.Fatal("two of three places can help")
		}
	}
	if p.Leave() {
		t.Error("nothing waits, and a place left")
	}
	waits := decodeAsync(t.Context(), d, "waits")
	waitQueued(t, d, 1)
	if p.Join() {
		t.Error("a place was lent while a request waits")
	}
	if !p.Leave() {
		t.Error("a request waits, and no place left")
	}
	if err := <-waits.result; err != nil {
		t.Error(err)
	}
	p.Done()
	d.giveBack(p, false)
	waitFor(t, "all places to be free", func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.free == 3
	})
	if s := d.Stats(); s.Helpers != 2 {
		t.Errorf("%d helped, want 2", s.Helpers)
	}
}

// TestAhead: what nobody waits for is decoded where a place is free, takes none
// from others, and does not wait.
func TestAhead(t *testing.T) {
	d, g := startGate(t, 2)
	ahead := func() decoding {
		x := decoding{&Request{Codec: L3, Name: "ahead", Encoded: []byte("ahead"), Pix: make([]byte, 5), Ahead: true}, make(chan error, 1)}
		go func() { x.result <- d.Decode(t.Context(), x.request) }()
		return x
	}
	all := []decoding{ahead(), ahead()}
	<-g.begun
	<-g.begun
	if d.Spare() {
		t.Error("two are decoded ahead in two places, and there is a third")
	}
	if err := <-ahead().result; !errors.Is(err, ErrBusy) {
		t.Errorf("a third: %v", err)
	}
	for range 2 { // they begin all the same
		all = append(all, decodeAsync(t.Context(), d, "asked"))
		if name := <-g.begun; name != "asked" {
			t.Errorf("%s was decoded", name)
		}
	}
	all = append(all, decodeAsync(t.Context(), d, "waits"))
	waitQueued(t, d, 1)
	g.open()
	for _, x := range all {
		if err := <-x.result; err != nil {
			t.Errorf("%s: %v", x.request.Name, err)
		}
	}
	d.Close()
	if s := d.Stats(); s.Decoded != 5 || s.Errors != 0 {
		t.Errorf("counters: %+v", s)
	}
}

func TestUnknownCodec(t *testing.T) {
	d := New(Options{Logger: quiet})
	defer d.Close()
	err := d.Decode(t.Context(), &Request{Name: "x"})
	if !errors.Is(err, ErrCodec) {
		t.Errorf("error %v", err)
	}
	if got := Codec(9).String(); got != "Codec(9)" {
		t.Errorf("Codec(9) is called %q", got)
	}
	if got := L3.String(); got != "l3" {
		t.Errorf("L3 is called %q", got)
	}
}
