package gpudecode

import (
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"prismfs/gpudecode/kernels"
	"prismfs/gpudecode/nvml"
	"prismfs/l3"
	"prismfs/raster"
)

// fakeDevice stands for a device: it decodes by package l3. Its behaviour may be
// changed between batches.
type fakeDevice struct {
	mu       sync.Mutex
	limit    batchSize
	room     int // images that there is memory for at a time; 0: any number
	fail     error
	dead     error // what check says
	panics   bool
	noLane   error
	refuses  map[string]bool // images that are refused
	spoils   map[string]bool // images the samples of which are wrong
	batches  [][]string      // names of the images of each, in order
	lanes    int
	closed   int
	lost     int
	noCoding l3.Coding // that it does not take; Raw for all

	begun chan []string // if not nil: is sent the names, and then
	pass  chan struct{} // waited for
}

func newFakeDevice() *fakeDevice {
	return &fakeDevice{limit: batchSize{up: 1 << 30, down: 1 << 30, patches: 1 << 20}, refuses: make(map[string]bool), spoils: make(map[string]bool)}
}

func (f *fakeDevice) String() string { return "a device for tests" }

func (f *fakeDevice) takes(c l3.Coding) bool { return kernels.Takes(c) && c != f.noCoding }

func (f *fakeDevice) most() batchSize { return f.limit }

func (f *fakeDevice) newLane() (lane, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.noLane != nil {
		return nil, f.noLane
	}
	f.lanes++
	return &fakeLane{device: f, decoder: l3.NewDecoder(l3.Limits{})}, nil
}

func (f *fakeDevice) check() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.dead
}

func (f *fakeDevice) health() (nvml.Status, error) { return nvml.Status{}, nil }

func (f *fakeDevice) close(lost bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed++
	if lost {
		f.lost++
	}
	if f.lanes != 0 {
		return errors.New("there are lanes left")
	}
	return nil
}

// set changes the behaviour.
func (f *fakeDevice) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// seen returns the batches so far.
func (f *fakeDevice) seen() [][]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.batches)
}

type fakeLane struct {
	device  *fakeDevice
	decoder *l3.Decoder
	memory  [][]byte // of the samples of the last batch
}

func (l *fakeLane) close() {
	l.device.mu.Lock()
	defer l.device.mu.Unlock()
	l.device.lanes--
}

func (l *fakeLane) run(jobs []*deviceJob) (int, time.Duration, error) {
	f := l.device
	// Whoever still reads samples of the last batch would see this.
	for _, m := range l.memory {
		clear(m)
	}
	l.memory = l.memory[:0]
	var names []string
	for _, j := range jobs {
		names = append(names, j.request.Name)
	}
	f.mu.Lock()
	f.batches = append(f.batches, names)
	room, fail, panics, begun := f.room, f.fail, f.panics, f.begun
	f.mu.Unlock()
	if begun != nil {
		begun <- names
		<-f.pass
	}
	if panics {
		var none []byte
		_ = none[len(jobs)]
	}
	if fail != nil {
		return 0, 0, fail
	}
	if room < 0 {
		return 0, 0, nil
	}
	if room > 0 {
		jobs = jobs[:min(room, len(jobs))]
	}
	for _, j := range jobs {
		l.decode(j)
	}
	return len(jobs), time.Millisecond, nil
}

func (l *fakeLane) decode(j *deviceJob) {
	pix := make([]byte, len(j.request.Pix))
	l.memory = append(l.memory, pix)
	l.device.mu.Lock()
	refuse, spoil := l.device.refuses[j.request.Name], l.device.spoils[j.request.Name]
	l.device.mu.Unlock()
	if _, err := l.decoder.Decode(pix, j.request.Encoded); err != nil || refuse {
		j.refusal = kernels.StatusRanOut
		return
	}
	if spoil {
		pix[len(pix)/2] ^= 1
	}
	j.samples = pix
}

// openFake makes a Decoder that has the device.
func openFake(t *testing.T, f *fakeDevice, opt Options) *Decoder {
	t.Helper()
	if opt.Logger == nil {
		opt.Logger = quiet
	}
	d, err := openWith(opt, func(*slog.Logger) (device, error) { return f, nil })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	waitSettled(t, d)
	return d
}

// gated makes the device say when batches begin, and wait. The function lets all
// of them go on; it is called when the test ends.
func (f *fakeDevice) gated(t *testing.T) (open func()) {
	f.begun, f.pass = make(chan []string, 1000), make(chan struct{})
	open = sync.OnceFunc(func() { close(f.pass) })
	t.Cleanup(open)
	return open
}

// smallImage is an image with its file, in a coding that devices take.
var smallImage = sync.OnceValue(func() encoded {
	img := photograph(raster.Shape{Height: 40, Width: 50, Channels: 3, DType: raster.Uint8, Color: raster.RGB})
	file, _ := l3.Encode(img, l3.EncodeOptions{Mode: l3.ModeFast}) // which decoding would show
	return encoded{img, file}
})

func (e encoded) request(name string, reader uint64) *Request {
	return &Request{Codec: L3, Name: name, Encoded: e.file, Pix: make([]byte, len(e.image.Pix)), Reader: reader}
}
