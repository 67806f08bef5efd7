package doctor

import "fmt"

// A State is how much a finding matters.
type State string

// The states.
const (
	OK   State = "ok"   // it is there, or not needed
	Less State = "less" // mounts work without it, slower or with less
	None State = "none" // it is of no use, as on machines that have no card
	Bad  State = "bad"  // nothing can be mounted
)

// A Check is one thing that was looked at.
type Check struct {
	Name   string `json:"name"`
	State  State  `json:"state"`
	Found  string `json:"found"`            // what there is, or why it is not there
	Remedy string `json:"remedy,omitempty"` // what to do, if anything can be done
}

// A Class is how fast a mount would be.
type Class string

// The classes of speed, and none.
const (
	Passthrough Class = "passthrough" // the kernel serves decoded files by itself
	Daemon      Class = "daemon"      // the first read of each goes through the daemon
	NoMount     Class = "none"
)

// A Device is a GPU, or a part of one.
type Device struct {
	Index       int    `json:"index"`
	UUID        string `json:"uuid"`
	Name        string `json:"name"`
	MemoryBytes int64  `json:"memory_bytes"` // −1 if it is not known
	Part        bool   `json:"mig_part"`
	Divided     bool   `json:"mig_divided"` // only its parts can be used
}

// A Report is all that was found.
type Report struct {
	Checks      []Check  `json:"checks"`
	CacheBudget int64    `json:"cache_budget_bytes"` // of a mount that is not told otherwise; 0 if it is not known
	Backend     string   `json:"backend"`            // that --backend auto would have: cuda, or of the CPU avx2 or go
	Driver      string   `json:"driver,omitempty"`   // the version of NVIDIA's driver
	Devices     []Device `json:"devices"`            // that NVML lists
	Class       Class    `json:"class"`
	Speed       string   `json:"speed"` // what that means, and why
}

func (r *Report) add(name string, state State, remedy, format string, args ...any) {
	r.Checks = append(r.Checks, Check{Name: name, State: state, Found: fmt.Sprintf(format, args...), Remedy: remedy})
}
