package fs

import (
	"fmt"
	"strconv"
	"strings"

	"prismfs/dataset"
)

// Fallbacks force what a machine may not allow, so that each way of serving can
// be tested on a machine that allows all of them.
type Fallbacks struct {
	NoFsopen      bool // no private tmpfs
	NoPassthrough bool // the kernel serves no backing files
	Memfd         bool // buffers are memfds
	Memory        bool // buffers are plain memory
	ReadAhead     bool // images are decoded ahead however busy the machine is
	FewNames      bool // the kernel may remember a thousand names
	NoPrune       bool // the kernel knows no message to forget nodes
	// RefuseEvery n > 0 refuses every nth registration of a backing file.
	RefuseEvery uint64
	// Store is what goes wrong with the source.
	Store dataset.Faults
}

// The environment variables that ParseFallbacks is given the values of.
const (
	EnvForce = "PRISMFS_FORCE" // comma-separated: no-fsopen, no-passthrough, memfd, memory, read-ahead, few-names, no-prune
	EnvFault = "PRISMFS_FAULT" // register:N
	EnvStore = "PRISMFS_STORE" // a script of dataset.ParseFaults
)

// ParseFallbacks reads the values of EnvForce, EnvFault and EnvStore; empty is
// nothing.
func ParseFallbacks(force, fault, store string) (Fallbacks, error) {
	var f Fallbacks
	var err error
	if f.Store, err = dataset.ParseFaults(store); err != nil {
		return f, fmt.Errorf("%s: %w", EnvStore, err)
	}
	flags := map[string]*bool{
		"no-fsopen": &f.NoFsopen, "no-passthrough": &f.NoPassthrough, "memfd": &f.Memfd, "memory": &f.Memory,
		"read-ahead": &f.ReadAhead, "few-names": &f.FewNames, "no-prune": &f.NoPrune,
	}
	for word := range strings.SplitSeq(force, ",") {
		if word == "" {
			continue
		}
		flag, ok := flags[word]
		if !ok {
			return f, fmt.Errorf("%s=%s: %q is none of no-fsopen, no-passthrough, memfd, memory, read-ahead, few-names, no-prune", EnvForce, force, word)
		}
		*flag = true
	}
	if fault == "" {
		return f, nil
	}
	n, ok := strings.CutPrefix(fault, "register:")
	every, err := strconv.ParseUint(n, 10, 32)
	if !ok || err != nil || every == 0 {
		return f, fmt.Errorf("%s=%s: want register:N, which refuses every Nth registration", EnvFault, fault)
	}
	f.RefuseEvery = every
	return f, nil
}

// String lists what is forced, for .prismfs/config.
func (f Fallbacks) String() string {
	var words []string
	for _, w := range []struct {
		on   bool
		name string
	}{
		{f.NoFsopen, "no-fsopen"}, {f.NoPassthrough, "no-passthrough"}, {f.Memfd, "memfd"}, {f.Memory, "memory"}, {f.ReadAhead, "read-ahead"},
		{f.FewNames, "few-names"}, {f.NoPrune, "no-prune"},
	} {
		if w.on {
			words = append(words, w.name)
		}
	}
	if f.RefuseEvery > 0 {
		words = append(words, fmt.Sprintf("register:%d", f.RefuseEvery))
	}
	if script := f.Store.String(); script != "" {
		words = append(words, "store: "+script)
	}
	return strings.Join(words, ",")
}
