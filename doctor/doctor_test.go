package doctor

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	iofs "io/fs"
	"math"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/ebitengine/purego"

	"prismfs/cache"
	"prismfs/gpudecode"
	"prismfs/gpudecode/cuda"
	"prismfs/gpudecode/cudasim"
	"prismfs/gpudecode/nvml"
	"prismfs/namespace"
)

const (
	rootStatus = "Name:\tprismfs\nNoNewPrivs:\t0\nCapEff:\t000001ffffffffff\nCapBnd:\t000001ffffffffff\n"
	userStatus = "Name:\tprismfs\nNoNewPrivs:\t0\nCapEff:\t0000000000000000\nCapBnd:\t000001ffffffffff\n"
	allUsers   = "         0          0 4294967295\n"
)

func file(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }

func noLibrary(kind error) error {
	return fmt.Errorf("%w: %w", kind, purego.Dlerror{})
}

// best is a machine that has everything but a GPU, on which root mounts.
func best() machine {
	return machine{
		files: fstest.MapFS{
			"proc/self/status":                file(rootStatus),
			"proc/self/uid_map":               file(allUsers),
			"etc/fuse.conf":                   file("# user_allow_other\n"),
			hugePages:                         file("always within_size advise [never] deny force\n"),
			"boot/config-6.12.38+deb13-amd64": file("# CONFIG_FUSE_DAX is not set\nCONFIG_FUSE_PASSTHROUGH=y\n"),
		},
		release:       func() (string, error) { return "6.12.38+deb13-amd64", nil },
		fuse:          func() (string, error) { return "", nil },
		program:       func(string) (string, error) { return "/usr/bin/fusermount3", nil },
		mode:          func(string) (iofs.FileMode, error) { return iofs.ModeSetuid | 0o755, nil },
		tmpfs:         func() error { return nil },
		userNamespace: func() error { return nil },
		memory: func() (cache.Memory, error) {
			return cache.Memory{Available: 8 << 30, CgroupFree: math.MaxInt64}, nil
		},
		decoder:     "avx2",
		jpegLibrary: "libjpeg-turbo 9.9",
		installed:   func() (cuda, nvml error) { return nil, nil },
		driver:      func() (driver, error) { return driver{}, noLibrary(cuda.ErrNoLibrary) },
		management:  func() (management, error) { return management{}, noLibrary(nvml.ErrNoLibrary) },
		choose:      func() (cuda.DeviceInfo, error) { return cuda.DeviceInfo{}, gpudecode.ErrNoDevice },
	}
}

// with changes files of a machine; an empty text takes one away.
func (m machine) with(names ...string) machine {
	files := make(fstest.MapFS)
	for name, f := range m.files.(fstest.MapFS) {
		files[name] = f
	}
	for i := 0; i < len(names); i += 2 {
		delete(files, names[i])
		if names[i+1] != "" {
			files[names[i]] = file(names[i+1])
		}
	}
	m.files = files
	return m
}

// asUser makes a machine one on which an ordinary user mounts.
func (m machine) asUser() machine {
	m = m.with("proc/self/status", userStatus)
	m.user = 1000
	m.tmpfs = func() error { return errors.New("operation not permitted") }
	return m
}

func mustLook(t *testing.T, m machine) *Report {
	t.Helper()
	r, err := look(m)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// expect checks the finding of a name, and that there is a remedy where something
// is missing.
func expect(t *testing.T, r *Report, name string, state State, words ...string) {
	t.Helper()
	for _, c := range r.Checks {
		if c.Name != name {
			continue
		}
		if c.State != state || (state == Less || state == Bad) && c.Remedy == "" {
			t.Errorf("%+v is not %s, or has no remedy", c, state)
		}
		for _, word := range words {
			if !strings.Contains(c.Found+" "+c.Remedy, word) {
				t.Errorf("%+v does not say %q", c, word)
			}
		}
		return
	}
	t.Errorf("nothing is said of %s: %+v", name, r.Checks)
}

func TestBestMachine(t *testing.T) {
	r := mustLook(t, best())
	for _, c := range r.Checks {
		want := OK
		if c.Name == "libcuda" || c.Name == "libnvidia-ml" || c.Name == "gpu" {
			want = None
		}
		if c.State != want {
			t.Errorf("%+v", c)
		}
	}
	if r.Class != Passthrough || !strings.Contains(r.Speed, "private tmpfs") || r.CacheBudget != 2<<30 || r.Backend != "avx2" {
		t.Errorf("%+v", r)
	}
	expect(t, r, "memory", OK, "8.0 GiB available", "no limit", "2.0 GiB")
	expect(t, r, "backend", OK, "on the CPU", "refused")
}

func TestFuse(t *testing.T) {
	m := best()
	m.fuse = func() (string, error) { return "load FUSE", iofs.ErrNotExist }
	r := mustLook(t, m)
	expect(t, r, "fuse", Bad, "load FUSE")
	if r.Class != NoMount {
		t.Errorf("a mount without FUSE is %s", r.Class)
	}
	m = best()
	missing := func(string) (string, error) { return "", errors.New("not found") }
	m.program = missing
	r = mustLook(t, m)
	if expect(t, r, "fusermount3", OK, "not needed"); r.Class != Passthrough {
		t.Errorf("root without fusermount3: %s", r.Class)
	}
	m = best().asUser()
	r = mustLook(t, m)
	expect(t, r, "fusermount3", OK, "/usr/bin")
	expect(t, r, "allow-other", Less, "/etc/fuse.conf")
	expect(t, r, "passthrough", Less, "root", "CAP_SYS_ADMIN")
	expect(t, r, "tmpfs", Less, "root")
	if r.Class != Daemon {
		t.Errorf("a user's mount is %s", r.Class)
	}
	expect(t, mustLook(t, m.with("etc/fuse.conf", "\n user_allow_other \n")), "allow-other", OK)
	m.mode = func(string) (iofs.FileMode, error) { return 0o755, nil }
	expect(t, mustLook(t, m), "fusermount3", Less, "chmod")
	for _, line := range []string{"NoNewPrivs:\t1", "CapBnd:\t000001ffffdfffff"} {
		bound := m.with("proc/self/status", userStatus+line+"\n")
		bound.userNamespace = func() error { return syscall.EPERM }
		r = mustLook(t, bound)
		if expect(t, r, "fusermount3", Bad, "container"); r.Class != NoMount {
			t.Errorf("%s: a mount is %s", line, r.Class)
		}
	}
	m.program = missing
	r = mustLook(t, m)
	if expect(t, r, "fusermount3", Bad, "fuse3"); r.Class != Daemon || !strings.Contains(r.Speed, "by prismfs run alone") {
		t.Errorf("a user without fusermount3: %s, %s", r.Class, r.Speed)
	}
	m.userNamespace = func() error { return syscall.EPERM }
	if r = mustLook(t, m); r.Class != NoMount {
		t.Errorf("a user without fusermount3 and user namespaces: %s", r.Class)
	}
}

// What keeps users from namespaces is named with its remedy.
func TestRun(t *testing.T) {
	user := best().asUser()
	expect(t, mustLook(t, best()), "run", OK, "needs no user namespace")
	expect(t, mustLook(t, user), "run", OK, "can be made")
	for name, text := range map[string]string{
		"proc/sys/user/max_user_namespaces": "0\n", "proc/sys/kernel/unprivileged_userns_clone": "0\n",
		"proc/sys/kernel/apparmor_restrict_unprivileged_userns": "1\n",
	} {
		key := strings.ReplaceAll(strings.TrimPrefix(name, "proc/sys/"), "/", ".")
		expect(t, mustLook(t, best().with(name, text)), "run", OK, "others cannot have one", "for other users", key)
		refused := user.with(name, text)
		refused.userNamespace = func() error { return syscall.EPERM }
		expect(t, mustLook(t, refused), "run", Less, "an ordinary mount", key)
		// With a profile of AppArmor prismfs may have what others may not.
		expect(t, mustLook(t, user.with(name, text)), "run", OK, "can be made")
	}
	user.userNamespace = func() error { return syscall.ENOSPC }
	expect(t, mustLook(t, user), "run", Less, "too many")
	user.userNamespace = func() error { return &exec.Error{Name: "unshare", Err: exec.ErrNotFound} }
	expect(t, mustLook(t, user), "run", OK, "nothing that is known")
}

// The namespaces are made for real; whether that is allowed depends on the machine.
func TestTryUserNamespace(t *testing.T) {
	if err := tryUserNamespace(); err != nil {
		if reason, _ := namespace.WhyNot(err); reason == "" {
			t.Errorf("%v has no reason", err)
		}
	}
}

func TestPassthrough(t *testing.T) {
	of := func(release string) machine {
		m := best()
		m.release = func() (string, error) { return release, nil }
		return m
	}
	for release, class := range map[string]Class{
		"6.9.0": Passthrough, "6.10-rc1": Passthrough, "7.0.0": Passthrough, "6.8.12-generic": Daemon, "5.15.0": Daemon, "4.99": Daemon, "linux": Daemon, "": Daemon,
	} {
		if r := mustLook(t, of(release)); r.Class != class {
			t.Errorf("Linux %q: %s", release, r.Class)
		}
	}
	expect(t, mustLook(t, of("6.9.0")), "passthrough", OK, "is seen when something is mounted")
	expect(t, mustLook(t, of("6.8.0")), "passthrough", Less, "6.9")
	expect(t, mustLook(t, of("6.9.0").with("boot/config-6.9.0", "# CONFIG_FUSE_PASSTHROUGH is not set\n")), "passthrough", Less, "built")
	expect(t, mustLook(t, best().with("proc/self/uid_map", "0 1000 1\n")), "passthrough", Less, "user namespace")
	expect(t, mustLook(t, best().with("proc/self/uid_map", "")), "passthrough", OK)
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	fmt.Fprintln(w, "CONFIG_FUSE_FS=y")
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	expect(t, mustLook(t, best().with("proc/config.gz", packed.String())), "passthrough", Less, "built")
	expect(t, mustLook(t, of("6.9.0").with("proc/config.gz", packed.String()[:packed.Len()/2])), "passthrough", OK, "is seen when")
}

func TestTmpfs(t *testing.T) {
	m := best()
	m.tmpfs = func() error { return errors.New("fsopen: function not implemented") }
	r := mustLook(t, m)
	expect(t, r, "tmpfs", Less, "function not implemented", "fsopen")
	if r.Class != Passthrough || !strings.Contains(r.Speed, "memfds") {
		t.Errorf("%s: %s", r.Class, r.Speed)
	}
	expect(t, mustLook(t, best().with(hugePages, "")), "folios", Less, "CONFIG_TRANSPARENT_HUGEPAGE")
	expect(t, mustLook(t, best().with(hugePages, "always never [deny]\n")), "folios", Less, "denied")
}

func TestMemory(t *testing.T) {
	of := func(mem cache.Memory, err error) *Report {
		m := best()
		m.memory = func() (cache.Memory, error) { return mem, err }
		return mustLook(t, m)
	}
	r := of(cache.Memory{Available: 8 << 30, CgroupFree: 1 << 30}, nil)
	if expect(t, r, "memory", OK, "cgroup leaves 1.0 GiB", "256 MiB"); r.CacheBudget != 256<<20 {
		t.Errorf("the budget is %d", r.CacheBudget)
	}
	expect(t, of(cache.Memory{Available: 8 << 30, CgroupFree: 9 << 30}, nil), "memory", OK, "more, 9.0 GiB")
	expect(t, of(cache.Memory{Available: 8 << 30}, nil), "memory", Less, "raise the limit")
	r = of(cache.Memory{}, errors.New("no meminfo"))
	if expect(t, r, "memory", Less, "no meminfo"); r.CacheBudget != 0 {
		t.Errorf("the budget is %d", r.CacheBudget)
	}
}

func TestDecoder(t *testing.T) {
	m := best()
	m.decoder = "go"
	r := mustLook(t, m)
	expect(t, r, "decoder", Less, "AVX2")
	expect(t, r, "libjpeg", OK, "libjpeg-turbo 9.9")
	if r.Backend != "go" {
		t.Errorf("the backend is %s", r.Backend)
	}
}

func TestGPU(t *testing.T) {
	m := best().with("dev/nvidiactl", "x")
	card := cuda.DeviceInfo{Name: "a card", UUID: "GPU-1", Major: 7}
	m.driver = func() (driver, error) { return driver{"libcuda.so.1", "12.4"}, nil }
	found := management{driver: "550.1", devices: []Device{
		{Index: 0, UUID: "GPU-0", Name: "a divided card", MemoryBytes: 80 << 30, Divided: true},
		{Index: 0, UUID: "MIG-0", Name: "a part", MemoryBytes: -1, Part: true},
	}}
	m.management = func() (management, error) { return found, nil }
	m.choose = func() (cuda.DeviceInfo, error) { return card, nil }
	r := mustLook(t, m)
	expect(t, r, "libcuda", OK, "12.4")
	expect(t, r, "libnvidia-ml", OK, "550.1", "2 devices")
	expect(t, r, "gpu", OK, "a divided card", "80.0 GiB", "GPU-0", "MIG")
	expect(t, r, "backend", OK, "GPU-1", "a card")
	if text := deviceText(found.devices[1]); !strings.Contains(text, "memory not known") || !strings.Contains(text, "MIG part") {
		t.Errorf("a part is %q", text)
	}
	if r.Backend != "cuda" || len(r.Devices) != 2 || r.Driver != "550.1" {
		t.Errorf("%+v", r)
	}
	card.Major, card.Minor = 6, 1
	r = mustLook(t, m)
	if expect(t, r, "backend", Less, "6.1", "7.0"); r.Backend != "avx2" {
		t.Errorf("an old card: the backend is %s", r.Backend)
	}
	found.missing = errors.New("device 1: lost")
	broken := 0
	for _, c := range mustLook(t, m).Checks {
		if c.Name == "libnvidia-ml" && c.State == Less && strings.Contains(c.Found, "device 1: lost") {
			broken++
		}
	}
	if broken != 1 {
		t.Error("a card that does not answer is not named")
	}
}

// TestNoGPU: each way of having none has its remedy.
func TestNoGPU(t *testing.T) {
	for _, c := range []struct {
		err   error
		state State
		words string
	}{
		{noLibrary(cuda.ErrNoLibrary), None, "--gpus all"},
		{fmt.Errorf("%w: it has no cuInit", cuda.ErrNoLibrary), Less, "newer driver"},
		{&cuda.Error{Call: "cuInit", Code: cuda.NoDevice, Name: "CUDA_ERROR_NO_DEVICE"}, None, "CUDA_VISIBLE_DEVICES"},
		{&cuda.Error{Call: "cuInit", Code: 999, Name: "CUDA_ERROR_UNKNOWN"}, Less, "nvidia-smi"},
	} {
		m := best().with("sys/bus/pci/devices/0000:01:00.0/vendor", "0x10de\n")
		m.driver = func() (driver, error) { return driver{}, c.err }
		expect(t, mustLook(t, m), "libcuda", c.state, c.words, c.err.Error())
	}
	m := best().with("proc/driver/nvidia/version", "x")
	m.management = func() (management, error) { return management{}, errors.New("nvmlInit: Driver Not Loaded (9)") }
	expect(t, mustLook(t, m), "libnvidia-ml", None, "Driver Not Loaded", "nvidia-smi")
	m.driver = func() (driver, error) { return driver{"libcuda.so.1", "12.4"}, nil }
	expect(t, mustLook(t, m), "libnvidia-ml", Less, "Driver Not Loaded", "nvidia-smi")
}

// TestNoCard: where the kernel sees no card, no library is started.
func TestNoCard(t *testing.T) {
	m := best().with("sys/bus/pci/devices/0000:00:01.0/vendor", "0x8086\n", "sys/bus/pci/devices/0000:00:02.0/class", "0x030000\n")
	started := func() error { t.Error("a library was started"); return errors.New("started") }
	m.driver = func() (driver, error) { return driver{}, started() }
	m.management = func() (management, error) { return management{}, started() }
	m.choose = func() (cuda.DeviceInfo, error) { return cuda.DeviceInfo{}, started() }
	r := mustLook(t, m)
	expect(t, r, "libcuda", None, "installed, and not started")
	expect(t, r, "gpu", None, "lspci")
	if r.Backend != "avx2" || len(r.Devices) != 0 {
		t.Errorf("%+v", r)
	}
	m.installed = func() (cuda, nvml error) { return errors.New("no libcuda"), errors.New("no libnvidia-ml") }
	r = mustLook(t, m)
	expect(t, r, "libcuda", None, "no libcuda", "no NVIDIA card")
	expect(t, r, "libnvidia-ml", None, "no libnvidia-ml", "no NVIDIA card")
}

// TestCannotLook: without /proc nothing is guessed.
func TestCannotLook(t *testing.T) {
	for _, m := range []machine{best().with("proc/self/status", ""), best().with("proc/self/status", "CapEff:\tx\n")} {
		if r, err := look(m); err == nil || !strings.Contains(err.Error(), "what this process may do") {
			t.Errorf("%+v, error %v", r, err)
		}
	}
	m := best()
	m.release = func() (string, error) { return "", errors.New("no uname") }
	if _, err := look(m); err == nil {
		t.Error("no error without a release")
	}
}

// TestSimulatedGPU looks at this machine, with a simulated driver.
func TestSimulatedGPU(t *testing.T) {
	libraries, err := cudasim.Build()
	if errors.Is(err, cudasim.ErrNoCompiler) {
		t.Skip("no g++: the simulated driver cannot be built")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(cuda.LibraryVariable, libraries.CUDA)
	t.Setenv(nvml.LibraryVariable, libraries.NVML)
	r, err := Look()
	if err != nil {
		t.Fatal(err)
	}
	expect(t, r, "libcuda", OK, libraries.CUDA)
	expect(t, r, "libnvidia-ml", OK, "1 device")
	expect(t, r, "gpu", OK, "GPU-")
	expect(t, r, "backend", OK, "GPU-")
	if r.Backend != "cuda" || len(r.Devices) != 1 || r.Devices[0].MemoryBytes <= 0 || r.CacheBudget <= 0 {
		t.Errorf("%+v", r)
	}
	t.Setenv("PRISMFS_NVMLSIM", "nvmlInit_v2=9")
	r = mustLook(t, thisMachine())
	expect(t, r, "libnvidia-ml", Less, "nvmlInit")
	expect(t, r, "backend", OK, "GPU-") // the first card, without NVML
	text, err := json.Marshal(r)
	if err != nil || !strings.Contains(string(text), `"backend":"cuda"`) || !strings.Contains(string(text), `"devices":[]`) {
		t.Errorf("error %v: %s", err, text)
	}
}
