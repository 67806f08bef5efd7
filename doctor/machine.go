package doctor

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"log/slog"
	"os"
	"os/exec"

	"golang.org/x/sys/unix"

	"prismfs/cache"
	"prismfs/fs"
	"prismfs/gpudecode"
	"prismfs/gpudecode/cuda"
	"prismfs/gpudecode/nvml"
	"prismfs/l3"
)

// A machine is what is asked. Tests have made-up ones.
type machine struct {
	files   iofs.FS // those of the root folder
	release func() (string, error)
	user    int
	fuse    func() (remedy string, err error)
	program func(name string) (path string, err error)
	mode    func(path string) (iofs.FileMode, error)
	tmpfs   func() error
	// userNamespace makes one, as prismfs run does.
	userNamespace func() error
	memory        func() (cache.Memory, error)
	decoder       string
	jpegLibrary   string
	simulated     bool // there is no card, and it is asked all the same
	installed     func() (cuda, nvml error)
	driver        func() (driver, error)
	management    func() (management, error)
	choose        func() (cuda.DeviceInfo, error)
}

// A driver is what libcuda says.
type driver struct{ path, cuda string }

// A management is what libnvidia-ml says.
type management struct {
	driver  string
	devices []Device
	missing error // beside the devices
}

// thisMachine is the real one.
func thisMachine() machine {
	return machine{
		files:         os.DirFS("/"),
		release:       release,
		user:          os.Geteuid(),
		fuse:          fs.TryFuse,
		program:       exec.LookPath,
		mode:          modeOf,
		tmpfs:         tryTmpfs,
		userNamespace: tryUserNamespace,
		memory:        cache.ReadMemory,
		decoder:       l3.NewDecoder(l3.Limits{}).Backend(),
		jpegLibrary:   gpudecode.JPEGLibrary(),
		simulated:     os.Getenv(cuda.LibraryVariable) != "",
		installed:     areInstalled,
		driver:        askDriver,
		management:    askManagement,
		choose: func() (cuda.DeviceInfo, error) {
			return gpudecode.FindDevice("", slog.New(slog.NewTextHandler(io.Discard, nil)))
		},
	}
}

func release() (string, error) {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return "", fmt.Errorf("asking for the kernel's release: %w", err)
	}
	text, _, _ := bytes.Cut(u.Release[:], []byte{0})
	return string(text), nil
}

func modeOf(path string) (iofs.FileMode, error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	return info.Mode(), nil
}

// tryTmpfs makes a private tmpfs, of no file, and gives it back.
func tryTmpfs() error {
	t, err := cache.NewTmpfs(int64(os.Getpagesize()))
	if err != nil {
		return err
	}
	return t.Close()
}

// areInstalled tells why NVIDIA's libraries cannot be loaded, and starts none.
func areInstalled() (ofCUDA, ofNVML error) {
	_, ofCUDA = cuda.LoadOnly()
	return ofCUDA, nvml.Loadable()
}

func askDriver() (driver, error) {
	lib, err := cuda.Load()
	if err != nil {
		return driver{}, err
	}
	return driver{lib.Path(), lib.Version()}, nil
}

func askManagement() (management, error) {
	lib, err := nvml.Open()
	if err != nil {
		return management{}, err
	}
	defer lib.Close()
	m := management{driver: lib.DriverVersion()}
	all, err := lib.Devices()
	if len(all) == 0 && err != nil {
		return m, errors.Join(errors.New("no device answers"), err)
	}
	m.missing = err
	for _, d := range all {
		m.devices = append(m.devices, Device{
			Index: d.Index, UUID: d.UUID, Name: d.Name, MemoryBytes: lib.MemoryTotal(d), Part: d.Parent != "", Divided: d.Divided,
		})
	}
	return m, nil
}
