package kernels

import (
	"bytes"
	"errors"
	"os"
	"runtime"
	"testing"
	"unsafe"

	"github.com/ebitengine/purego"

	"prismfs/gpudecode/cuda"
	"prismfs/gpudecode/cudasim"
	"prismfs/l3"
)

// A simulator is the simulated device with the embedded module.
type simulator struct {
	device    *cuda.Device
	stream    *cuda.Stream
	kernels   [Count]*cuda.Kernel
	checksums *cuda.Kernel
	setScript func(script *byte) int32
}

// newSimulator opens the simulated device, for the calling goroutine alone.
func newSimulator(t testing.TB) *simulator {
	t.Helper()
	libraries, err := cudasim.Build()
	if errors.Is(err, cudasim.ErrNoCompiler) {
		t.Skip("no g++: the simulated driver cannot be built")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(cuda.LibraryVariable, libraries.CUDA)
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	library, err := cuda.Load()
	check(t, err)
	s := new(simulator)
	handle, err := purego.Dlopen(libraries.CUDA, purego.RTLD_NOW)
	check(t, err)
	purego.RegisterLibFunc(&s.setScript, handle, "cusim_script")
	s.device, err = library.Open(0)
	check(t, err)
	check(t, s.device.Bind())
	s.stream, err = s.device.NewStream()
	check(t, err)
	module, err := s.device.LoadModule(PTX)
	check(t, err)
	for k := range s.kernels {
		s.kernels[k], err = module.Kernel(Kernel(k).Name())
		check(t, err)
	}
	s.checksums, err = module.Kernel(ChecksumName)
	check(t, err)
	t.Cleanup(func() {
		check(t, s.stream.Close())
		check(t, module.Unload())
		check(t, s.device.Unbind())
		check(t, s.device.Close())
	})
	return s
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// script sets the script of the simulator.
func (s *simulator) script(t testing.TB, script string) {
	t.Helper()
	text := append([]byte(script), 0)
	if s.setScript(&text[0]) != 0 {
		t.Fatalf("script %q is not understood", script)
	}
}

// eachOrder runs a check with the threads of blocks in either order.
func (s *simulator) eachOrder(t *testing.T, f func()) {
	t.Helper()
	for _, order := range []string{"forward", "reverse"} {
		s.script(t, "order="+order)
		f()
		if t.Failed() {
			t.Fatalf("threads ran in %s order", order)
		}
	}
}

// upload puts data into device memory that is exactly as large.
func upload[T any](t testing.TB, s *simulator, data []T) cuda.Memory {
	t.Helper()
	if len(data) == 0 {
		data = make([]T, 1)
	}
	b := unsafe.Slice((*byte)(unsafe.Pointer(&data[0])), len(data)*int(unsafe.Sizeof(data[0])))
	m, err := s.device.Alloc(int64(len(b)))
	check(t, err)
	check(t, s.stream.Upload(m, 0, b))
	check(t, s.stream.Synchronize())
	return m
}

func download(t testing.TB, s *simulator, to []byte, m cuda.Memory) {
	t.Helper()
	check(t, s.stream.Download(to, m, 0))
	check(t, s.stream.Synchronize())
}

// untouched is what the pixel buffer holds before kernels run.
const untouched = 0x6b

// An outcome is what the device makes of a batch: the samples of each image, and
// the worst status of its patches.
type outcome struct {
	samples  [][]byte
	statuses []Status
	buffer   []byte // all of the pixel buffer
}

// decode decodes files, all of which have plans, in one batch.
func (s *simulator) decode(t testing.TB, files [][]byte, planar bool) outcome {
	t.Helper()
	var b Batch
	var encoded []byte
	var places []int
	plan, size := new(l3.Plan), 0
	for _, file := range files {
		check(t, plan.Parse(file, l3.DefaultLimits))
		b.Add(plan, uint64(len(encoded)), Destination{At: uint64(size), Planar: planar})
		places = append(places, size)
		size += int(plan.Info.Shape.Bytes())
		encoded = append(encoded, file...)
		encoded = append(encoded, make([]byte, -len(encoded)&(EncodedAlign-1))...)
	}
	o := outcome{statuses: make([]Status, len(files)), buffer: bytes.Repeat([]byte{untouched}, size)}
	statuses := s.run(t, &b, encoded, o.buffer)
	for k := range statuses {
		for i, status := range statuses[k] {
			if status != StatusOK {
				o.statuses[b.Patches[k][i].Image] = status
			}
		}
	}
	for i, at := range places {
		end := size
		if i+1 < len(places) {
			end = places[i+1]
		}
		o.samples = append(o.samples, o.buffer[at:end])
	}
	return o
}

// run runs all kernels that a batch needs and returns the statuses of patches.
func (s *simulator) run(t testing.TB, b *Batch, encoded, pixels []byte) [Count][]Status {
	t.Helper()
	memories := []cuda.Memory{upload(t, s, encoded), upload(t, s, pixels), upload(t, s, b.Images), upload(t, s, b.Tables)}
	var statuses [Count][]Status
	for k := range Count {
		if n := len(b.Patches[k]); n > 0 {
			statuses[k] = s.launch(t, k, b.Patches[k], memories)
		}
	}
	download(t, s, pixels, memories[1])
	for _, m := range memories {
		check(t, s.device.Free(m))
	}
	return statuses
}

// launch checks the checksums of patches, where they have any, and decodes them.
func (s *simulator) launch(t testing.TB, k Kernel, patches []Patch, m []cuda.Memory) []Status {
	t.Helper()
	statuses := make([]Status, len(patches))
	for i := range statuses {
		statuses[i] = StatusWaiting
		if k != Published {
			statuses[i] = StatusBadValue // l3_crc begins them
		}
	}
	p, st := upload(t, s, patches), upload(t, s, statuses)
	arguments := []uint64{
		m[0].Address, uint64(m[0].Bytes), m[1].Address, uint64(m[1].Bytes), m[2].Address, p.Address, uint64(len(patches)),
		m[3].Address, st.Address,
	}
	if k != Published {
		check(t, s.checksums.Launch(s.stream, Raw.Blocks(len(patches)), BlockThreads, arguments...))
	}
	check(t, s.kernels[k].Launch(s.stream, k.Blocks(len(patches)), BlockThreads, arguments...))
	check(t, s.stream.Synchronize())
	download(t, s, unsafe.Slice((*byte)(unsafe.Pointer(&statuses[0])), 4*len(statuses)), st)
	check(t, s.device.Free(p))
	check(t, s.device.Free(st))
	return statuses
}

// plain decodes a file with plain Go. The samples are good if the error is nil, or
// if it is that their own checksum is wrong.
func plain(file []byte) (samples []byte, err error) {
	d := l3.NewDecoder(l3.DefaultLimits, l3.WithoutSIMD())
	plan := new(l3.Plan)
	if err := plan.Parse(file, l3.DefaultLimits); err != nil {
		return nil, err
	}
	samples = make([]byte, plan.Info.Shape.Bytes())
	_, err = d.Decode(samples, file)
	return samples, err
}

func readFile(t testing.TB, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	check(t, err)
	return data
}
