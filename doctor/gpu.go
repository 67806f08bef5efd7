package doctor

import (
	"errors"
	"fmt"
	iofs "io/fs"
	"strings"

	"github.com/ebitengine/purego"

	"prismfs/gpudecode/cuda"
	"prismfs/gpudecode/nvml"
)

// leastMajor is the compute capability that kernels are compiled for, 7.0.
const leastMajor = 7

// checkGPU says what there is of a GPU, and what --backend auto would make of it. A
// machine without one lacks nothing.
func (m machine) checkGPU(r *Report) {
	if !m.simulated && !seesCard(m.files) {
		m.checkWithoutCard(r)
		return
	}
	state := OK
	if d, err := m.driver(); err != nil {
		state = stateWithout(err)
		r.add("libcuda", state, remedyOfCUDA(err), "%v", err)
	} else {
		r.add("libcuda", OK, "", "%s, for CUDA %s", d.path, d.cuda)
	}
	m.checkManagement(r, state)
	r.Backend = m.decoder
	chosen, chooseErr := m.choose()
	switch {
	case chooseErr != nil:
		r.add("backend", OK, "", "--backend auto would decode on the CPU; --backend cuda would be refused")
	case chosen.Major < leastMajor:
		r.add("backend", Less, "a card of compute capability 7.0 or more (V100, T4, A100 and later), named by --device if there are several",
			"--backend auto would decode on the CPU: %s has compute capability %d.%d", chosen.Name, chosen.Major, chosen.Minor)
	default:
		r.Backend = "cuda"
		r.add("backend", OK, "", "--backend auto would decode on the CPU and on %s (%s, compute capability %d.%d), each image where it is done first",
			chosen.Name, chosen.UUID, chosen.Major, chosen.Minor)
	}
}

// checkWithoutCard says what there is of libraries. They are not started: the answer
// is known, and as root they would make device nodes.
func (m machine) checkWithoutCard(r *Report) {
	ofCUDA, ofNVML := m.installed()
	for _, library := range []struct {
		name string
		err  error
	}{{"libcuda", ofCUDA}, {"libnvidia-ml", ofNVML}} {
		if library.err != nil {
			r.add(library.name, None, "", "%v; the kernel sees no NVIDIA card", library.err)
		} else {
			r.add(library.name, None, "", "installed, and not started: the kernel sees no NVIDIA card")
		}
	}
	r.Backend = m.decoder
	r.add("backend", OK, "", "--backend auto would decode on the CPU; --backend cuda would be refused")
	r.add("gpu", None, "if the machine has an NVIDIA card: lspci should list it; start a container with --gpus all, a virtual machine with the card",
		"none")
}

// nvidiaVendor is NVIDIA's number on PCI.
const nvidiaVendor = "0x10de"

// seesCard tells whether the kernel has a card of NVIDIA, or its driver: on PCI, in
// a container that was given the driver's devices, on WSL or Jetson.
func seesCard(files iofs.FS) bool {
	for _, name := range []string{"proc/driver/nvidia", "dev/nvidiactl", "dev/dxg", "dev/nvmap"} {
		if _, err := iofs.Stat(files, name); err == nil {
			return true
		}
	}
	const bus = "sys/bus/pci/devices"
	devices, err := iofs.ReadDir(files, bus)
	if err != nil {
		return false
	}
	for _, d := range devices {
		vendor, err := iofs.ReadFile(files, bus+"/"+d.Name()+"/vendor")
		if err == nil && strings.TrimSpace(string(vendor)) == nvidiaVendor {
			return true
		}
	}
	return false
}

// stateWithout is how much it matters that the driver cannot be used. Where it is not
// there at all, or sees no card, there may be none that is missed.
func stateWithout(err error) State {
	var notLoaded purego.Dlerror
	if errors.As(err, &notLoaded) || cuda.ErrorCode(err) == cuda.NoDevice {
		return None
	}
	return Less
}

func remedyOfCUDA(err error) string {
	var notLoaded purego.Dlerror
	switch {
	case errors.As(err, &notLoaded):
		return "if the machine has an NVIDIA card: install its driver; in a container, start it with --gpus all"
	case errors.Is(err, cuda.ErrNoLibrary):
		return "install a newer driver"
	case cuda.ErrorCode(err) == cuda.NoDevice:
		return "if the machine has an NVIDIA card: see what nvidia-smi says, CUDA_VISIBLE_DEVICES, and the devices of the container"
	}
	return "see what nvidia-smi says of the driver"
}

// checkManagement lists the cards. Where there is no driver, what this library says
// matters no more than that.
func (m machine) checkManagement(r *Report, driver State) {
	const name = "libnvidia-ml"
	found, err := m.management()
	r.Driver = found.driver
	if err != nil {
		remedy := "see what nvidia-smi says of the driver"
		if errors.Is(err, nvml.ErrNoLibrary) {
			remedy = "it comes with the driver, in Debian as libnvidia-ml1; without it the first card is used"
		}
		state := Less
		if driver == None {
			state = None
		}
		r.add(name, state, remedy, "%v", err)
		return
	}
	version := found.driver
	if version == "" {
		version = "of a version that is not said"
	}
	r.add(name, OK, "", "driver %s, %s", version, countText(len(found.devices)))
	if found.missing != nil {
		r.add(name, Less, "see what nvidia-smi says of the card", "%v", found.missing)
	}
	r.Devices = append(r.Devices, found.devices...)
	for _, d := range found.devices {
		r.add("gpu", OK, "", "%s", deviceText(d))
	}
}

func deviceText(d Device) string {
	memory := "memory not known"
	if d.MemoryBytes >= 0 {
		memory = bytesText(d.MemoryBytes)
	}
	text := fmt.Sprintf("%d: %s, %s, %s", d.Index, d.Name, memory, d.UUID)
	switch {
	case d.Part:
		text += ", a MIG part"
	case d.Divided:
		text += ", divided (MIG): its parts alone can be used, a part of it by --device"
	}
	return text
}

func countText(devices int) string {
	if devices == 1 {
		return "1 device"
	}
	return fmt.Sprintf("%d devices", devices)
}
