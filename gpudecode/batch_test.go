package gpudecode

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"prismfs/l3"
)

// deviceDecoding is a call of Decode that goes on, of the small image.
func deviceDecoding(ctx context.Context, d *Decoder, r *Request) decoding {
	x := decoding{r, make(chan error, 1)}
	go func() { x.result <- d.Decode(ctx, r) }()
	return x
}

// waitDevice returns when n requests wait for the device.
func waitDevice(t *testing.T, d *Decoder, n int) {
	t.Helper()
	waitFor(t, fmt.Sprintf("%d requests that wait for the device", n), func() bool {
		s := d.device
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.waiting.len+s.ahead.len == n
	})
}

// mustBeRight fails the test unless the call gives the right samples.
func mustBeRight(t *testing.T, x decoding) {
	t.Helper()
	if err := <-x.result; err != nil {
		t.Errorf("%s: %v", x.request.Name, err)
	} else if !bytes.Equal(x.request.Pix, smallImage().image.Pix) {
		t.Errorf("%s: wrong samples", x.request.Name)
	}
}

// TestWhatWaitsBecomesABatch: a request that finds a free lane does not wait, and
// all that comes while none is free is the next batch.
func TestWhatWaitsBecomesABatch(t *testing.T) {
	const later = 12
	f := newFakeDevice()
	open := f.gated(t)
	d := openFake(t, f, Options{Backend: BackendCUDA})
	var all []decoding
	for i := range deviceLanes {
		all = append(all, deviceDecoding(t.Context(), d, smallImage().request(fmt.Sprint("lone", i), 0)))
		if names := <-f.begun; len(names) != 1 {
			t.Errorf("a batch of %q for a lone request", names)
		}
	}
	for i := range later {
		all = append(all, deviceDecoding(t.Context(), d, smallImage().request(fmt.Sprint("later", i), 0)))
		waitDevice(t, d, i+1)
	}
	f.pass <- struct{}{}
	names := <-f.begun
	for i := range later {
		if i >= len(names) || names[i] != fmt.Sprint("later", i) {
			t.Fatalf("the batch is %q", names)
		}
	}
	open()
	for _, x := range all {
		mustBeRight(t, x)
	}
	s := d.Stats()
	if s.Decoded != deviceLanes+later || s.BatchImages != s.Decoded || s.Batches != deviceLanes+1 || s.Errors != 0 {
		t.Errorf("counters: %+v", s)
	}
	if v := s.Device; v.State != DeviceUp || v.LargestBatch != later || v.BatchImages != s.BatchImages || v.Patches == 0 || v.SampleBytes == 0 {
		t.Errorf("counters of the device: %+v", v)
	}
	if s.Backend != "cuda" || s.WaitNS == 0 || s.DecodeNS == 0 {
		t.Errorf("counters: %+v", s)
	}
}

// TestReadersTakeTurns: one who asks for many images does not keep another one
// waiting who asks for one.
func TestReadersTakeTurns(t *testing.T) {
	f := newFakeDevice()
	open := f.gated(t)
	d := openFake(t, f, Options{Backend: BackendCUDA})
	var all []decoding
	for i := range deviceLanes {
		all = append(all, deviceDecoding(t.Context(), d, smallImage().request(fmt.Sprint("lone", i), 0)))
		<-f.begun
	}
	waits := 0
	add := func(reader uint64, n int) {
		for i := range n {
			all = append(all, deviceDecoding(t.Context(), d, smallImage().request(fmt.Sprint(reader, ".", i), reader)))
			waits++
			waitDevice(t, d, waits)
		}
	}
	add(1, 5)
	add(2, 1)
	add(3, 2)
	d.device.mu.Lock()
	j := d.device.waiting.first()
	d.device.most = batchSize{up: 4 * j.size.up, down: 4 * j.size.down, patches: 1 << 20} // four images
	d.device.mu.Unlock()
	f.pass <- struct{}{}
	if names := <-f.begun; !slices.Equal(names, []string{"1.0", "2.0", "3.0", "1.1"}) {
		t.Errorf("the first batch is %q", names)
	}
	f.pass <- struct{}{}
	if names := <-f.begun; !slices.Equal(names, []string{"3.1", "1.2", "1.3", "1.4"}) {
		t.Errorf("the second batch is %q", names)
	}
	open()
	for _, x := range all {
		mustBeRight(t, x)
	}
}

// TestAheadOnDevice: what nobody waits for yet gets what is left of a batch, but
// one image always.
func TestAheadOnDevice(t *testing.T) {
	f := newFakeDevice()
	open := f.gated(t)
	d := openFake(t, f, Options{Backend: BackendCUDA, Workers: 1})
	var all []decoding
	for i := range deviceLanes {
		all = append(all, deviceDecoding(t.Context(), d, smallImage().request(fmt.Sprint("lone", i), 0)))
		<-f.begun
	}
	for i := range 3 {
		r := smallImage().request(fmt.Sprint("ahead", i), 0)
		r.Ahead = true
		all = append(all, deviceDecoding(t.Context(), d, r))
		waitDevice(t, d, i+1)
	}
	if !d.Spare() {
		t.Error("no image would be decoded ahead")
	}
	for i := range 2 {
		all = append(all, deviceDecoding(t.Context(), d, smallImage().request(fmt.Sprint("now", i), 0)))
		waitDevice(t, d, 4+i)
	}
	d.device.mu.Lock()
	j := d.device.waiting.first()
	d.device.most = batchSize{up: 3 * j.size.up, down: 3 * j.size.down, patches: 1 << 20}
	d.device.mu.Unlock()
	f.pass <- struct{}{}
	if names := <-f.begun; !slices.Equal(names, []string{"ahead0", "now0", "now1"}) {
		t.Errorf("the batch is %q", names)
	}
	open()
	for _, x := range all {
		mustBeRight(t, x)
	}
}

func TestCancelWhileWaitingForDevice(t *testing.T) {
	f := newFakeDevice()
	open := f.gated(t)
	d := openFake(t, f, Options{Backend: BackendCUDA})
	ctx, cancel := context.WithCancel(t.Context())
	var running []decoding
	for i := range deviceLanes {
		running = append(running, deviceDecoding(ctx, d, smallImage().request(fmt.Sprint("running", i), 0)))
		<-f.begun
	}
	waiting := deviceDecoding(ctx, d, smallImage().request("waiting", 0))
	waitDevice(t, d, 1)
	other := deviceDecoding(t.Context(), d, smallImage().request("other", 0))
	waitDevice(t, d, 2)
	cancel()
	if err := <-waiting.result; !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "waiting") {
		t.Errorf("dropped request: %v", err)
	}
	waitDevice(t, d, 1)
	for _, x := range running {
		select {
		case err := <-x.result:
			t.Errorf("Decode returned (%v) while its buffers were in use", err)
		default:
		}
	}
	open()
	for _, x := range append(running, other) {
		mustBeRight(t, x)
	}
	if s := d.Stats(); s.Dropped != 1 || s.Decoded != deviceLanes+1 || s.Device.BatchImages != deviceLanes+1 {
		t.Errorf("counters: %+v", s)
	}
}

// TestFailedBatch: readers do not notice that a batch fails.
func TestFailedBatch(t *testing.T) {
	for name, spoil := range map[string]func(*fakeDevice){
		"error": func(f *fakeDevice) { f.fail = errors.New("launch failed") },
		"panic": func(f *fakeDevice) { f.panics = true },
	} {
		t.Run(name, func(t *testing.T) {
			var log lockedBuffer
			f := newFakeDevice()
			d := openFake(t, f, Options{Backend: BackendCUDA, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			f.set(func() { spoil(f) })
			mustBeRight(t, deviceDecoding(t.Context(), d, smallImage().request("first", 0)))
			f.set(func() { f.fail, f.panics = nil, false })
			mustBeRight(t, deviceDecoding(t.Context(), d, smallImage().request("second", 0)))
			v := d.Stats().Device
			if v.FailedBatches != 1 || v.Failed != 1 || v.Losses != 0 || v.State != DeviceUp || v.BatchImages != 1 {
				t.Errorf("counters: %+v", v)
			}
			if !strings.Contains(log.String(), "a batch failed on the device") {
				t.Errorf("the log lacks it:\n%s", log.String())
			}
		})
	}
}

// lockedBuffer is a log that several goroutines write.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// clock is a time that tests move on.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// waitSettled returns when no session is ended or begun.
func waitSettled(t *testing.T, d *Decoder) {
	t.Helper()
	if d.device == nil {
		return
	}
	waitFor(t, "the device to be given back or taken", func() bool {
		d.device.mu.Lock()
		defer d.device.mu.Unlock()
		return d.device.busy == 0
	})
}

// TestLostDevice: a lost device is left alone for a while, and all goes on with
// the CPU; then it is tried again.
func TestLostDevice(t *testing.T) {
	var log lockedBuffer
	f := newFakeDevice()
	open := f.gated(t)
	d := openFake(t, f, Options{Backend: BackendCUDA, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	c := &clock{now: time.Now()}
	d.device.mu.Lock()
	d.device.now = c.Now
	d.device.mu.Unlock()

	var all []decoding
	for i := range deviceLanes {
		all = append(all, deviceDecoding(t.Context(), d, smallImage().request(fmt.Sprint("running", i), 0)))
		<-f.begun
	}
	for i := range 5 {
		all = append(all, deviceDecoding(t.Context(), d, smallImage().request(fmt.Sprint("waiting", i), 0)))
		waitDevice(t, d, i+1)
	}
	f.set(func() { f.dead, f.fail = errors.New("fell off the bus"), errors.New("launch failed") })
	open()
	for _, x := range all {
		mustBeRight(t, x)
	}
	waitSettled(t, d)
	if s := d.Stats(); s.Device.State != DeviceLost || s.Device.Losses != 1 || !strings.Contains(s.Device.Reason, "fell off the bus") || s.Backend == "cuda" {
		t.Errorf("after the loss: %+v", s)
	}
	if f.closed != 1 || f.lost != 1 || f.lanes != 0 {
		t.Errorf("the device was given back %d times, %d of them as lost, with %d lanes left", f.closed, f.lost, f.lanes)
	}
	one := func(name string) { mustBeRight(t, deviceDecoding(t.Context(), d, smallImage().request(name, 0))) }
	batches := len(f.seen())
	one("while it is lost")
	c.advance(firstPause - 1)
	one("still lost")
	if n := d.Stats().Device.Probes; n != 0 || len(f.seen()) != batches {
		t.Errorf("%d attempts, %d batches while it is to be left alone", n, len(f.seen())-batches)
	}

	// The first attempt fails, and the pause is longer then.
	f.set(func() { f.noLane = errors.New("no streams") })
	c.advance(1)
	one("attempt")
	waitSettled(t, d)
	c.advance(firstPause)
	one("no attempt yet")
	if v := d.Stats().Device; v.Probes != 1 || !strings.Contains(v.Reason, "no streams") {
		t.Errorf("after an attempt: %+v", v)
	}
	f.set(func() { f.noLane, f.dead, f.fail = nil, nil, nil })
	c.advance(firstPause)
	one("second attempt")
	waitSettled(t, d)
	one("it works again")
	if v := d.Stats().Device; v.Probes != 2 || v.State != DeviceUp || v.Reason != "" || len(f.seen()) != batches+1 {
		t.Errorf("after the second attempt: %+v, %d batches", v, len(f.seen())-batches)
	}
	for _, want := range []string{"the device is lost", "the device is still lost", "the device works again", "fell off the bus"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log lacks %q:\n%s", want, log.String())
		}
	}
}

// TestFailuresInARow: a device that says it works and does not is lost.
func TestFailuresInARow(t *testing.T) {
	f := newFakeDevice()
	d := openFake(t, f, Options{Backend: BackendCUDA})
	f.set(func() { f.fail = errors.New("launch failed") })
	for i := range failuresInARow + 2 {
		mustBeRight(t, deviceDecoding(t.Context(), d, smallImage().request(fmt.Sprint(i), 0)))
	}
	waitSettled(t, d)
	if v := d.Stats().Device; v.State != DeviceLost || v.FailedBatches != failuresInARow || len(f.seen()) != failuresInARow {
		t.Errorf("%+v, %d batches", v, len(f.seen()))
	}
}

// TestBadImages: an image that is bad fails alone, with the CPU's error, and one
// that only the device finds bad does not fail.
func TestBadImages(t *testing.T) {
	var log lockedBuffer
	f := newFakeDevice()
	f.refuses["refused"], f.spoils["spoilt"] = true, true
	d := openFake(t, f, Options{Backend: BackendCUDA, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	bad := smallImage().request("bad", 0)
	bad.Encoded = bytes.Clone(bad.Encoded)
	bad.Encoded[len(bad.Encoded)-1] ^= 1
	err := d.Decode(t.Context(), bad)
	plain := New(Options{Logger: quiet})
	defer plain.Close()
	want := plain.Decode(t.Context(), bad)
	if !errors.Is(err, l3.ErrCorrupt) || err.Error() != want.Error() {
		t.Errorf("%v, without a device %v", err, want)
	}
	if n := d.Stats().Device.Disagreed; n != 0 {
		t.Errorf("%d disagreements", n)
	}
	for _, name := range []string{"refused", "spoilt", "good"} {
		mustBeRight(t, deviceDecoding(t.Context(), d, smallImage().request(name, 0)))
	}
	s := d.Stats()
	if s.Device.Refused != 3 || s.Device.Disagreed != 2 || s.Errors != 1 || s.Decoded != 3 {
		t.Errorf("counters: %+v", s)
	}
	if !strings.Contains(log.String(), "refused an image that the CPU decodes") {
		t.Errorf("the log lacks it:\n%s", log.String())
	}
}

// TestMemoryRunsOut: batches shrink, and grow again after a while; an image that
// is too large alone goes to the CPU.
func TestMemoryRunsOut(t *testing.T) {
	f := newFakeDevice()
	open := f.gated(t)
	d := openFake(t, f, Options{Backend: BackendCUDA})
	f.set(func() { f.room = 2 })
	var all []decoding
	for i := range deviceLanes {
		all = append(all, deviceDecoding(t.Context(), d, smallImage().request(fmt.Sprint("lone", i), 0)))
		<-f.begun
	}
	for i := range 8 {
		all = append(all, deviceDecoding(t.Context(), d, smallImage().request(fmt.Sprint("later", i), uint64(i%2))))
		waitDevice(t, d, i+1)
	}
	open()
	for _, x := range all {
		mustBeRight(t, x)
	}
	v := d.Stats().Device
	if v.Shrunk == 0 || v.BatchImages != deviceLanes+8 || v.LargestBatch != 2 || v.NoMemory != 0 {
		t.Errorf("counters: %+v", v)
	}
	d.device.mu.Lock()
	small := d.device.most
	d.device.mu.Unlock()
	for range growAfter {
		mustBeRight(t, deviceDecoding(t.Context(), d, smallImage().request("x", 0)))
	}
	d.device.mu.Lock()
	if d.device.most == small || d.device.most != f.limit {
		t.Errorf("batches of %v at most, still", d.device.most)
	}
	d.device.mu.Unlock()
	f.set(func() { f.room = -1 })
	mustBeRight(t, deviceDecoding(t.Context(), d, smallImage().request("no room", 0)))
	f.mu.Lock()
	if v := d.Stats().Device; v.NoMemory != 1 || f.lanes != 1 {
		t.Errorf("counters: %+v, %d lanes", v, f.lanes)
	}
	f.mu.Unlock()
	f.set(func() { f.room = 0 })
	for range growAfter {
		mustBeRight(t, deviceDecoding(t.Context(), d, smallImage().request("x", 0)))
	}
	waitFor(t, "all lanes to begin again", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.lanes == deviceLanes
	})
}

// TestNotForDevice: what a device does not take is decoded all the same.
func TestNotForDevice(t *testing.T) {
	f := newFakeDevice()
	f.limit = smallBatch(t)
	f.noCoding = l3.Dense8
	d := openFake(t, f, Options{Backend: BackendCUDA})
	big := smallImage().image.Shape
	big.Height, big.Width = 200, 200
	for name, e := range map[string]encoded{
		"raw": encode(t, smallImage().image, l3.ModeRaw), "dense": encode(t, smallImage().image, l3.ModeDense),
		"big": encode(t, photograph(big), l3.ModeFast),
	} {
		r := e.request(name, 0)
		if err := d.Decode(t.Context(), r); err != nil || !bytes.Equal(r.Pix, e.image.Pix) {
			t.Errorf("%s: error %v, or other samples", name, err)
		}
	}
	short := smallImage().request("short", 0)
	short.Pix = short.Pix[1:]
	if err := d.Decode(t.Context(), short); !errors.Is(err, l3.ErrDestination) {
		t.Errorf("a buffer that is too short: %v", err)
	}
	if v := d.Stats().Device; v.NoKernel != 2 || v.TooLarge != 1 || v.BatchImages != 0 || len(f.seen()) != 0 {
		t.Errorf("counters: %+v", v)
	}
}

// smallBatch is what the small image takes.
func smallBatch(t *testing.T) batchSize {
	t.Helper()
	var j deviceJob
	if !j.setPlan(smallImage().request("", 0), l3.Limits{}) {
		t.Fatal("the small image is not for a device")
	}
	return j.size
}

// TestCloseWithDevice: what came before Close is decoded, and the device is given
// back once.
func TestCloseWithDevice(t *testing.T) {
	f := newFakeDevice()
	open := f.gated(t)
	d := openFake(t, f, Options{Backend: BackendCUDA})
	var all []decoding
	for i := range deviceLanes {
		all = append(all, deviceDecoding(t.Context(), d, smallImage().request(fmt.Sprint("running", i), 0)))
		<-f.begun
	}
	for i := range 4 {
		all = append(all, deviceDecoding(t.Context(), d, smallImage().request(fmt.Sprint("waiting", i), 0)))
		waitDevice(t, d, i+1)
	}
	var closers sync.WaitGroup
	for range 3 {
		closers.Go(d.Close)
	}
	waitFor(t, "Close to begin", func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.ending
	})
	if err := d.Decode(t.Context(), smallImage().request("late", 0)); !errors.Is(err, ErrClosed) {
		t.Errorf("a request after Close: %v", err)
	}
	f.set(func() { f.fail = errors.New("it fails as well") }) // and so all go to the CPU
	open()
	for _, x := range all {
		mustBeRight(t, x)
	}
	closers.Wait()
	if f.closed != 1 || f.lanes != 0 {
		t.Errorf("the device was given back %d times with %d lanes left", f.closed, f.lanes)
	}
	checkNoGoroutines(t)
}

// TestNoDevice: auto goes on without one and says why, cuda does not, cpu does not
// look for one.
func TestNoDevice(t *testing.T) {
	var log lockedBuffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	none := func(*slog.Logger) (device, error) { return nil, errors.New("no libcuda here") }
	d, err := openWith(Options{Logger: logger}, none)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	waitSettled(t, d)
	mustBeRight(t, deviceDecoding(t.Context(), d, smallImage().request("x", 0)))
	s := d.Stats()
	if s.Device.State != DeviceNone || !strings.Contains(s.Device.Reason, "no libcuda here") || !strings.Contains(log.String(), "no libcuda here") {
		t.Errorf("auto: %+v, log:\n%s", s.Device, log.String())
	}
	if _, err := openWith(Options{Logger: quiet, Backend: BackendCUDA}, none); !errors.Is(err, ErrNoDevice) || !strings.Contains(err.Error(), "no libcuda here") {
		t.Errorf("cuda: %v", err)
	}
	cpu, err := openWith(Options{Logger: quiet, Backend: BackendCPU}, func(*slog.Logger) (device, error) {
		t.Error("a device was looked for")
		return nil, errors.New("none")
	})
	if err != nil {
		t.Fatal(err)
	}
	cpu.Close()
	noLane := newFakeDevice()
	noLane.noLane = errors.New("no streams")
	if _, err := openWith(Options{Logger: quiet, Backend: BackendCUDA}, func(*slog.Logger) (device, error) { return noLane, nil }); err == nil ||
		!strings.Contains(err.Error(), "no streams") || noLane.closed != 1 {
		t.Errorf("a device that fails half-way: %v, given back %d times", err, noLane.closed)
	}
}

// TestStartLater: nobody waits for a device that takes its time to start.
func TestStartLater(t *testing.T) {
	start := make(chan error)
	d, err := openWith(Options{Logger: quiet}, func(*slog.Logger) (device, error) { return newFakeDevice(), <-start })
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	mustBeRight(t, deviceDecoding(t.Context(), d, smallImage().request("early", 0)))
	if s := d.Stats(); s.Device.State != DeviceNone || !strings.Contains(s.Device.Reason, errStarting.Error()) || s.Device.BatchImages != 0 || s.Decoded != 1 {
		t.Errorf("before it has started: %+v", s)
	}
	start <- nil
	waitSettled(t, d)
	mustBeRight(t, deviceDecoding(t.Context(), d, smallImage().request("later", 0)))
	if s := d.Stats(); s.Device.State != DeviceUp || s.Device.Reason != "" || s.Device.BatchImages != 1 {
		t.Errorf("when it has started: %+v", s)
	}
}

// TestMetamorphic: whatever fails, every image is right or has the CPU's error.
func TestMetamorphic(t *testing.T) {
	const readers, each = 16, 40
	f := newFakeDevice()
	d := openFake(t, f, Options{Workers: 2})
	c := &clock{now: time.Now()}
	d.device.mu.Lock()
	d.device.now = c.Now
	d.device.mu.Unlock()
	faults := []func(){
		func() { f.fail = errors.New("launch failed") },
		func() { f.fail, f.dead = errors.New("launch failed"), errors.New("lost") },
		func() { f.room = 1 },
		func() { f.room = -1 },
		func() { f.panics = true },
		func() { f.fail, f.dead, f.room, f.panics = nil, nil, 0, false },
	}
	var wg sync.WaitGroup
	for reader := range readers {
		wg.Go(func() {
			for i := range each {
				r := smallImage().request(fmt.Sprint(reader, ".", i), uint64(reader))
				bad := (reader+i)%7 == 0
				if bad {
					r.Encoded = bytes.Clone(r.Encoded)
					r.Encoded[len(r.Encoded)-3] ^= 4
				}
				switch err := d.Decode(t.Context(), r); {
				case bad && !errors.Is(err, l3.ErrCorrupt):
					t.Errorf("%s: a bad image: %v", r.Name, err)
				case !bad && err != nil:
					t.Errorf("%s: %v", r.Name, err)
				case !bad && !bytes.Equal(r.Pix, smallImage().image.Pix):
					t.Errorf("%s: wrong samples", r.Name)
				}
				if i%5 == 0 {
					f.set(faults[(reader+i/5)%len(faults)])
					c.advance(time.Minute)
				}
			}
		})
	}
	wg.Wait()
	if s := d.Stats(); s.Decoded+s.Errors != readers*each || s.BatchImages != readers*each {
		t.Errorf("counters: %+v", s)
	}
	d.Close()
	if f.lanes != 0 {
		t.Errorf("%d lanes are left", f.lanes)
	}
}
