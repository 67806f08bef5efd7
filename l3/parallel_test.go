package l3

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"prismfs/raster"
)

func TestJoinChecksums(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		data := rapid.SliceOfN(rapid.Byte(), 1, 3000).Draw(t, "data")
		part := rapid.IntRange(1, len(data)).Draw(t, "part")
		var sums []uint32
		for at := 0; at < len(data); at += part {
			sums = append(sums, checksum(data[at:min(at+part, len(data))]))
		}
		if got, want := joinChecksums(sums, int64(part), int64(len(data))), checksum(data); got != want {
			t.Fatalf("%08x, want %08x", got, want)
		}
	})
}

// TestChecksumOfLongParts compares with lengths that few files reach.
func TestChecksumOfLongParts(t *testing.T) {
	begin := []byte("begin")
	for _, n := range []int{1<<20 - 1, 1 << 20, 12345678} {
		end := bytes.Repeat([]byte{7}, n)
		want := crc32.Update(checksum(begin), castagnoli, end)
		if got := multiply(checksum(begin), zeros(int64(n))) ^ checksum(end); got != want {
			t.Errorf("%d bytes: %08x, want %08x", n, got, want)
		}
	}
	if zeros(0) != polynomialOne {
		t.Errorf("nothing follows: %08x", zeros(0))
	}
}

// busyCrew lends and calls back at random, and counts.
type busyCrew struct {
	mu                 sync.Mutex
	rng                *rand.Rand
	lent, called, done int
}

func (c *busyCrew) Join() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lent-c.called-c.done >= 3 || c.rng.IntN(3) == 0 {
		return false
	}
	c.lent++
	return true
}

func (c *busyCrew) Leave() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	leave := c.rng.IntN(4) == 0
	if leave {
		c.called++
	}
	return leave
}

func (c *busyCrew) Done() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.done++
}

// versionTwoModes are the modes that name a coding of version 2.
var versionTwoModes = []Mode{ModeFast, ModeRaw, ModeDense, ModeLabels}

// largeFiles returns files of every coding, each large enough for a crew. They
// are shared: nothing in them may be changed.
var largeFiles = sync.OnceValue(func() map[string][]byte {
	files := make(map[string][]byte)
	add := func(name string, s raster.Shape, opt EncodeOptions) {
		file, err := Encode(draw(pictures[3], s), opt)
		if errors.Is(err, ErrUnsupported) {
			return
		}
		if err != nil {
			panic(err)
		}
		files[name] = file
	}
	for _, mode := range versionTwoModes {
		for channels := 1; channels <= raster.MaxChannels; channels++ {
			add(fmt.Sprintf("mode %d, %d channels of 8 bits", mode, channels), shapeOf(390, 1000/channels, channels, raster.Uint8), EncodeOptions{Mode: mode})
		}
		add(fmt.Sprintf("mode %d, 16 bits", mode), shapeOf(390, 450, 1, raster.Int16), EncodeOptions{Mode: mode})
	}
	add("several chunks", shapeOf(900, 901, 3, raster.Uint8), EncodeOptions{Mode: ModeRaw})
	add("published", shapeOf(256, 448, 3, raster.Uint8), EncodeOptions{Mode: ModePublished})
	return files
})

// decodeAlone is the decoding by one goroutine.
func decodeAlone(t testing.TB, file []byte, options ...DecoderOption) ([]byte, error) {
	t.Helper()
	info, err := ReadInfo(bytes.NewReader(file), int64(len(file)), DefaultLimits)
	if err != nil {
		t.Fatal(err)
	}
	pix := make([]byte, info.Shape.Bytes())
	_, err = NewDecoder(DefaultLimits, options...).Decode(pix, file)
	return pix, err
}

// TestSeveralWorkers: samples and errors are those of one goroutine.
func TestSeveralWorkers(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	for _, options := range [][]DecoderOption{nil, {WithoutSIMD()}} {
		// The same decoders for all files: memory of one must not show in another.
		fixed := NewDecoder(DefaultLimits, append(options, WithWorkers(4))...)
		crew := &busyCrew{rng: rand.New(rand.NewPCG(5, 1))}
		lent := NewDecoder(DefaultLimits, options...)
		check := func(t *testing.T, file []byte) {
			want, wantErr := decodeAlone(t, file, options...)
			for name, decode := range map[string]func(dst []byte) error{
				"WithWorkers": func(dst []byte) error { _, err := fixed.Decode(dst, file); return err },
				"DecodeWith":  func(dst []byte) error { _, err := lent.DecodeWith(crew, dst, file); return err },
			} {
				got := bytes.Repeat([]byte{0x5a}, len(want))
				if err := decode(got); fmt.Sprint(err) != fmt.Sprint(wantErr) {
					t.Fatalf("%s: error %v, want %v", name, err, wantErr)
				}
				if wantErr == nil && !bytes.Equal(got, want) {
					t.Fatalf("%s: samples differ, first at %d", name, firstDifference(got, want))
				}
			}
		}
		for name, file := range largeFiles() {
			t.Run(fmt.Sprintf("%s, %s", name, fixed.Backend()), func(t *testing.T) {
				check(t, file)
				head := len(file) - len(file)/2 // in the head, damage is found before
				for range 3 {
					damaged := bytes.Clone(file)
					for range 1 + rng.IntN(3) { // the first one counts
						damaged[head+rng.IntN(len(file)-head)] ^= 1 << rng.IntN(8)
					}
					check(t, damaged)
				}
			})
		}
		if crew.lent == 0 || crew.called == 0 || crew.done == 0 || crew.lent != crew.called+crew.done {
			t.Errorf("%d were lent, %d called back, %d done", crew.lent, crew.called, crew.done)
		}
	}
}

// TestWrongSamplesChecksum: a checksum of the samples that is wrong, where those
// of all patches are right.
func TestWrongSamplesChecksum(t *testing.T) {
	for name, file := range largeFiles() {
		if hasMagic(file, magicPublished) {
			continue
		}
		file = bytes.Clone(file)
		file[atPixelCRC] ^= 1
		file = repair(file)
		pix, want := decodeAlone(t, file)
		_, err := NewDecoder(DefaultLimits, WithWorkers(3)).Decode(pix, file)
		if !errors.Is(err, ErrCorrupt) || err.Error() != want.Error() {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
	}
}

// TestWorkersAllocateNothing: in steady state.
func TestWorkersAllocateNothing(t *testing.T) {
	for name, file := range largeFiles() {
		pix, err := decodeAlone(t, file)
		if err != nil {
			t.Fatal(err)
		}
		allocations := func(workers int) float64 {
			d := NewDecoder(DefaultLimits, WithWorkers(workers))
			return testing.AllocsPerRun(20, func() {
				if _, err := d.Decode(pix, file); err != nil {
					t.Error(err)
				}
			})
		}
		if alone, n := allocations(1), allocations(2); n > alone {
			t.Errorf("%s: %v allocations an image, with one goroutine %v", name, n, alone)
		}
	}
}

// panicking is work on bands that panics.
type panicking struct {
	own     *Decoder
	byOwn   bool          // in the caller's goroutine, else in a lent one
	met     chan struct{} // closed when a lent goroutine has come
	meet    sync.Once
	running atomic.Int32
}

func (p *panicking) prepare(*Decoder) error { return nil }

func (p *panicking) decode(d *Decoder, _ int) error {
	p.running.Add(1)
	defer p.running.Add(-1)
	if d == p.own {
		<-p.met
	} else {
		p.meet.Do(func() { close(p.met) })
	}
	if (d == p.own) == p.byOwn {
		panic("injected: a band that panics") // what TestPanicInABand is about
	}
	return nil
}

// TestPanicInABand: one of a lent goroutine fails the image, one of the caller's
// is the caller's, and nobody works on when the call is over.
func TestPanicInABand(t *testing.T) {
	for _, byOwn := range []bool{false, true} {
		d := NewDecoder(DefaultLimits, WithWorkers(3))
		work := &panicking{own: d, byOwn: byOwn, met: make(chan struct{})}
		d.bands.work, d.bands.count = work, 1<<20
		var seen any
		ok := true
		func() {
			defer func() { seen = recover() }()
			ok = d.bands.run(d, nil, nil)
		}()
		if byOwn && seen == nil || !byOwn && (seen != nil || ok) {
			t.Errorf("by the caller's goroutine %v: panic %v, ok %v", byOwn, seen, ok)
		}
		if n := work.running.Load(); n != 0 {
			t.Errorf("by the caller's goroutine %v: %d still work", byOwn, n)
		}
		if free := d.crew.(*fixedCrew).free; free != 2 {
			t.Errorf("%d goroutines were given back of 2", free)
		}
	}
}

// BenchmarkWorkers decodes an image of 6 million pixels by one goroutine and by
// two: the times are to be compared.
func BenchmarkWorkers(b *testing.B) {
	s := shapeOf(2000, 3000, 3, raster.Uint8)
	whole := raster.Image{Shape: s, Pix: make([]byte, s.Bytes())}
	var names []string
	images := loadFolder(b, "data/kodak")
	for name := range images {
		names = append(names, name)
	}
	// Photographs side by side.
	for y := 0; y < s.Height; y++ {
		row := whole.Pix[y*s.RowBytes() : (y+1)*s.RowBytes()]
		for i := 0; len(row) > 0; i++ {
			p := images[names[(i+y/512*4)%len(names)]]
			row = row[copy(row, p.Pix[y%512%p.Height*p.RowBytes():][:p.RowBytes()]):]
		}
	}
	for _, mode := range versionTwoModes {
		file, err := Encode(whole, EncodeOptions{Mode: mode})
		if err != nil {
			continue
		}
		for _, workers := range []int{1, 2} {
			b.Run(fmt.Sprintf("mode%d/workers%d", mode, workers), func(b *testing.B) {
				d := NewDecoder(DefaultLimits, WithWorkers(workers))
				pix := make([]byte, s.Bytes())
				b.SetBytes(s.Bytes())
				for b.Loop() {
					if _, err := d.Decode(pix, file); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
