package cudasim_test

import (
	"errors"
	"math/bits"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/ebitengine/purego"

	"prismfs/gpudecode/cuda"
	"prismfs/gpudecode/cudasim"
)

// ptx declares the kernels that the simulator has for these tests; their bodies are
// the host's.
var ptx = func() string {
	var b strings.Builder
	b.WriteString(".version 6.3\n.target sm_70\n.address_size 64\n")
	for _, name := range []string{"sim_copy", "sim_reverse", "sim_diverge", "sim_lanes"} {
		b.WriteString(".visible .entry " + name + "(\n\t.param .u64 a,\n\t.param .u64 b,\n\t.param .u32 c\n)\n.maxntid 128, 1, 1\n{ ret; }\n")
	}
	return b.String()
}()

const blockThreads = 128

// A machine is a simulated machine with an open device.
type machine struct {
	library *cuda.Library
	device  *cuda.Device
	stream  *cuda.Stream
	module  *cuda.Module
	script  func(t testing.TB, script string)
	calls   func(name string) uint64
	held    func() uint64
}

func newMachine(t testing.TB) *machine {
	t.Helper()
	libraries, err := cudasim.Build()
	if errors.Is(err, cudasim.ErrNoCompiler) {
		t.Skip("no g++: the simulated driver cannot be built")
	}
	check(t, err)
	t.Setenv(cuda.LibraryVariable, libraries.CUDA)
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	m := new(machine)
	m.bind(t, libraries.CUDA)
	m.library, err = cuda.Load()
	check(t, err)
	m.script(t, "")
	m.device, err = m.library.Open(0)
	check(t, err)
	check(t, m.device.Bind())
	t.Cleanup(func() {
		m.script(t, "")
		check(t, m.device.Unbind())
		check(t, m.device.Close())
		if n := m.held(); n != 0 {
			t.Errorf("%d things are held after the last context", n)
		}
	})
	m.begin(t)
	return m
}

// bind makes the functions that the simulator has beside those of a driver.
func (m *machine) bind(t testing.TB, path string) {
	t.Helper()
	handle, err := purego.Dlopen(path, purego.RTLD_NOW)
	check(t, err)
	var script func(*byte) int32
	var calls func(*byte) uint64
	purego.RegisterLibFunc(&script, handle, "cusim_script")
	purego.RegisterLibFunc(&calls, handle, "cusim_calls")
	purego.RegisterLibFunc(&m.held, handle, "cusim_held")
	m.script = func(t testing.TB, text string) {
		t.Helper()
		if script(&append([]byte(text), 0)[0]) != 0 {
			t.Fatalf("script %q is not understood", text)
		}
	}
	m.calls = func(name string) uint64 { return calls(&append([]byte(name), 0)[0]) }
}

// begin makes a stream and loads the module.
func (m *machine) begin(t testing.TB) {
	t.Helper()
	var err error
	m.stream, err = m.device.NewStream()
	check(t, err)
	m.module, err = m.device.LoadModule(ptx)
	check(t, err)
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// checkCode checks that an error is the driver's, with a code.
func checkCode(t *testing.T, what string, err error, want cuda.Code) {
	t.Helper()
	var failed *cuda.Error
	if !errors.As(err, &failed) || failed.Code != want {
		t.Errorf("%s: %v, want code %d", what, err, want)
	}
}

func asBytes(words []uint32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), 4*len(words))
}

// run runs a kernel of one block with words that go in, and returns so many.
func (m *machine) run(t testing.TB, name string, in []uint32, results int, argument uint64) ([]uint32, error) {
	t.Helper()
	from, err := m.device.Alloc(int64(4 * len(in)))
	check(t, err)
	to, err := m.device.Alloc(int64(4 * results))
	check(t, err)
	check(t, m.stream.Upload(from, 0, asBytes(in)))
	kernel, err := m.module.Kernel(name)
	check(t, err)
	check(t, kernel.Launch(m.stream, 1, blockThreads, from.Address, to.Address, argument))
	if err := m.stream.Synchronize(); err != nil {
		return nil, err
	}
	out := make([]uint32, results)
	check(t, m.stream.Download(asBytes(out), to, 0))
	check(t, m.stream.Synchronize())
	check(t, m.device.Free(from))
	check(t, m.device.Free(to))
	return out, nil
}

// restart gets a whole context after one was lost.
func (m *machine) restart(t testing.TB) {
	t.Helper()
	check(t, m.device.Abandon())
	var err error
	m.device, err = m.library.Open(0)
	check(t, err)
	check(t, m.device.Bind())
	m.begin(t)
}

func counting(n int) []uint32 {
	words := make([]uint32, n)
	for i := range words {
		words[i] = uint32(i*i + 3)
	}
	return words
}

// TestLanes compares the operations of a warp with what they are defined as.
func TestLanes(t *testing.T) {
	m := newMachine(t)
	in := counting(32)
	for _, order := range []string{"order=forward", "order=reverse"} {
		m.script(t, order)
		out, err := m.run(t, "sim_lanes", in, 32*5, 0)
		check(t, err)
		var odd, sum uint32
		for i, v := range in {
			odd |= v % 2 << i
		}
		for i, v := range in {
			sum += v
			up := v
			if i >= 3 {
				up = in[i-3]
			}
			var same uint32
			for k, other := range in {
				if other%4 == v%4 {
					same |= 1 << k
				}
			}
			want := []uint32{in[(i+1)%32], up, odd, same, sum}
			if got := out[5*i : 5*i+5]; !slices.Equal(got, want) {
				t.Errorf("%s: lane %d: %d, want %d", order, i, got, want)
			}
		}
		if bits.OnesCount32(odd) == 0 {
			t.Error("no lane is odd: the ballot shows nothing")
		}
	}
}

// TestMissingBarrier checks that a barrier which is not there shows in one of the
// orders, on the first launch: shared memory holds nothing of use when a block
// begins.
func TestMissingBarrier(t *testing.T) {
	m := newMachine(t)
	in := counting(blockThreads)
	want := slices.Clone(in)
	slices.Reverse(want)
	wrong := 0
	for _, order := range []string{"order=forward", "order=reverse"} {
		m.script(t, order)
		out, err := m.run(t, "sim_reverse", in, len(in), 1)
		check(t, err)
		if !slices.Equal(out, want) {
			t.Errorf("%s: wrong although all threads wait", order)
		}
		if out, err = m.run(t, "sim_reverse", in, len(in), 0); err != nil || !slices.Equal(out, want) {
			wrong++
		}
	}
	if wrong == 0 {
		t.Error("a missing barrier does not show")
	}
}

// TestBadKernels checks that kernels which break the rules end with an error, after
// which the context is lost until it is made anew.
func TestBadKernels(t *testing.T) {
	const illegalAddress, launchFailed = 700, 719
	m := newMachine(t)
	for _, test := range []struct {
		what, kernel string
		in, out      int
		argument     uint64
		want         cuda.Code
	}{
		{"a lane leaves", "sim_diverge", 32, 32, 1, launchFailed},
		{"a lane does something else", "sim_diverge", 32, 32, 2, launchFailed},
		{"reads past the end", "sim_copy", 64, 128, 128, illegalAddress},
		{"writes past the end", "sim_copy", 128, 64, 128, illegalAddress},
		{"writes past an end that is not aligned", "sim_copy", 128, 127, 128, illegalAddress},
	} {
		_, err := m.run(t, test.kernel, counting(test.in), test.out, test.argument)
		checkCode(t, test.what, err, test.want)
		_, err = m.device.Alloc(4)
		checkCode(t, test.what+": the call after it", err, test.want)
		m.restart(t)
		in := counting(blockThreads)
		out, err := m.run(t, "sim_copy", in, len(in), uint64(len(in)))
		if err != nil || !slices.Equal(out, in) {
			t.Errorf("%s: a new context copies no more: %v", test.what, err)
		}
	}
}

// TestScript checks the faults that a script can have.
func TestScript(t *testing.T) {
	const outOfMemory, launchFailed, lost = 2, 719, 999
	m := newMachine(t)
	m.script(t, "memory=1000")
	_, err := m.device.Alloc(2000)
	checkCode(t, "too much memory", err, outOfMemory)

	m.script(t, "cuMemAlloc_v2:2=2")
	first, err := m.device.Alloc(100)
	check(t, err)
	_, err = m.device.Alloc(100)
	checkCode(t, "the second allocation", err, outOfMemory)
	check(t, m.device.Free(first))
	if n := m.calls("cuMemAlloc_v2"); n != 2 {
		t.Errorf("%d allocations counted, 2 made", n)
	}

	in := counting(blockThreads)
	m.script(t, "kernel:2=719")
	_, err = m.run(t, "sim_copy", in, len(in), uint64(len(in)))
	check(t, err)
	_, err = m.run(t, "sim_copy", in, len(in), uint64(len(in)))
	checkCode(t, "the second kernel", err, launchFailed)
	m.restart(t)

	m.script(t, "cuStreamSynchronize:1=999!!")
	checkCode(t, "the device is lost", m.stream.Synchronize(), lost)
	_, err = m.library.Open(0)
	checkCode(t, "and stays so", err, lost)
	m.script(t, "")
	_, err = m.run(t, "sim_copy", in, len(in), uint64(len(in)))
	check(t, err)
}

// TestModules checks that PTX is refused whose kernels are not those of the host.
func TestModules(t *testing.T) {
	const invalidPTX = 218
	m := newMachine(t)
	for what, text := range map[string]string{
		"no PTX":                 "kernels",
		"an unknown kernel":      strings.ReplaceAll(ptx, "sim_copy", "sim_move"),
		"another type":           strings.ReplaceAll(ptx, ".param .u32 c", ".param .u64 c"),
		"one parameter less":     strings.ReplaceAll(ptx, ",\n\t.param .u32 c", ""),
		"one parameter more":     strings.ReplaceAll(ptx, ".param .u32 c", ".param .u32 c,\n\t.param .u32 d"),
		"a list that has no end": ".version 6.3\n.target sm_70\n.visible .entry sim_copy(",
	} {
		_, err := m.device.LoadModule(text)
		checkCode(t, what, err, invalidPTX)
	}
}

// TestThreads checks that a context belongs to a thread.
func TestThreads(t *testing.T) {
	const invalidContext = 201
	m := newMachine(t)
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // and ends with the goroutine
		_, err := m.device.Alloc(4)
		result <- err
	}()
	checkCode(t, "a thread without a context", <-result, invalidContext)
}
