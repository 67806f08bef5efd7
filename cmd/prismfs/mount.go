package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"strconv"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"prismfs/cache"
	"prismfs/fs"
	"prismfs/gpudecode"
	"prismfs/order"
)

// byteSize is a flag such as 4GiB.
type byteSize int64

func (b *byteSize) Set(text string) error {
	n, err := humanize.ParseBytes(text)
	if err != nil || n == 0 || n > 1<<62 {
		return fmt.Errorf("want a size such as 512MiB or 4GiB")
	}
	*b = byteSize(n)
	return nil
}

func (b *byteSize) String() string {
	if *b == 0 {
		return ""
	}
	return humanize.IBytes(uint64(*b))
}

// minCacheBytes is the smallest cache: less holds no photograph.
const minCacheBytes = 1 << 20

func (b *byteSize) Type() string { return "size" }

// mountFlags are the flags of mount.
type mountFlags struct {
	view       string
	cache      byteSize
	policy     cachePolicy
	backend    string
	device     string
	allowOther bool
	nonEmpty   bool
	mkdir      bool
	foreground bool
	options    optionList
	timeout    time.Duration
	jobs       int
	readAhead  imageCount

	keepDuplicates bool
	tolerate       bool
	maxGap         gapSize
	throttle       byteSize
	tableDir       string
}

// cachePolicy is a flag: lru or pin.
type cachePolicy cache.Policy

func (p *cachePolicy) Set(text string) error {
	policy, err := cache.ParsePolicy(text)
	*p = cachePolicy(policy)
	return err
}

func (p *cachePolicy) String() string { return cache.Policy(*p).String() }
func (p *cachePolicy) Type() string   { return "lru|pin" }

// gapSize is a flag such as 64KiB, or 0 for no gap.
type gapSize struct {
	bytes int64
	set   bool
}

func (g *gapSize) Set(text string) error {
	n, err := humanize.ParseBytes(text)
	if err != nil || n > 1<<40 {
		return fmt.Errorf("want a size such as 64KiB, or 0")
	}
	*g = gapSize{int64(n), true}
	return nil
}

func (g *gapSize) String() string {
	if !g.set {
		return ""
	}
	return humanize.IBytes(uint64(g.bytes))
}

func (g *gapSize) Type() string { return "size" }

// option returns the gap as mount options have it: 0 for what suits the store.
func (g *gapSize) option() int64 {
	if g.set && g.bytes == 0 {
		return -1
	}
	return g.bytes
}

// imageCount is a flag such as 8, or off.
type imageCount int

// maxReadAhead is more than any machine has processors for.
const maxReadAhead = 1024

func (n *imageCount) Set(text string) error {
	if text == "off" {
		*n = -1
		return nil
	}
	v, err := strconv.Atoi(text)
	if err != nil || v < 1 || v > maxReadAhead {
		return fmt.Errorf("want off, or a number of images from 1 to %d", maxReadAhead)
	}
	*n = imageCount(v)
	return nil
}

func (n *imageCount) String() string {
	if *n < 0 {
		return "off"
	}
	return strconv.Itoa(int(*n))
}

func (n *imageCount) Type() string { return "off|N" }

func newMountCommand() *cobra.Command {
	f := mountFlags{readAhead: order.DefaultImages}
	var linger time.Duration
	cmd := &cobra.Command{
		Use:   "mount SRC MOUNTPOINT",
		Short: "Mount a dataset as decoded files",
		Long: `Mount a folder of L3 files or of PCR records, as pack writes them, so that every
program reads them decoded. The command returns once the mount answers; the mount
stays until prismfs umount, or with --foreground until Ctrl-C.

A folder of the mount is read in another form by writing the form behind its
name: MOUNTPOINT/train is as --view says, MOUNTPOINT/train+png are PNG files,
MOUNTPOINT/train+2 are PCR images at fidelity 2, which costs a fifth of the bytes, and
MOUNTPOINT/+raw is the whole dataset as bare samples. MOUNTPOINT/train+auto has the
fidelity that prismfs fidelity sets. MOUNTPOINT/.prismfs/views has the list,
MOUNTPOINT/.prismfs/stats the counters.`,
		Args: usedArguments,
		RunE: func(cmd *cobra.Command, args []string) error {
			opt, err := f.mountOptions(args[0], args[1])
			if err != nil {
				return err
			}
			log := logFileOf(cmd)
			switch {
			case linger < 0:
				return usageError("--linger %v is negative", linger)
			case os.Getenv(envReady) != "":
				return serveInBackground(opt, service{log: log, linger: linger})
			case f.foreground:
				return serve(opt, service{log: log, linger: linger})
			}
			if _, ok := fs.HandedOver(args[1]); ok {
				return usageError("mounting on %s: whoever hands a descriptor over waits for this process; add --foreground", args[1])
			}
			return mountInBackground(cmd.Context())
		},
	}
	f.register(cmd)
	cmd.Flags().DurationVar(&linger, "linger", 0, "when SIGTERM comes and files are open, detach the mount, serve them for so long, and end (default: stay mounted)")
	cmd.Flags().BoolVarP(&f.foreground, "foreground", "f", false, "stay in the foreground; Ctrl-C unmounts")
	return cmd
}

// register adds the flags that say what is mounted and how.
func (f *mountFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.view, "view", "npy", "form of the files where a path names none: npy, png, ppm, raw, jpg, l3 or orig, with rgb, chw or a fidelity")
	flags.Var(&f.cache, "cache", "memory for decoded files (default: a quarter of what machine and cgroup have free)")
	flags.Var(&f.policy, "cache-policy", "which decoded files stay when there is no room for all: lru, the last ones, or pin, the first ones (better for shuffled epochs of more than fits)")
	flags.StringVar(&f.backend, "backend", "auto", "what decodes: cpu, cuda (an NVIDIA GPU, or the mount is refused), or auto (a GPU where there is one)")
	flags.StringVar(&f.device, "device", "", "the GPU that decodes: its index, UUID or the UUID of a MIG part (default: the freest)")
	flags.BoolVar(&f.allowOther, "allow-other", false, "let other users read, as the permissions of the source allow")
	flags.BoolVar(&f.mkdir, "mkdir", false, "make the mount point, and the folders above it, if they do not exist; they stay")
	flags.BoolVar(&f.nonEmpty, "nonempty", false, "mount over a folder that has files")
	f.options.flags = flags
	flags.BoolVar(&f.options.sloppy, "sloppy", false, "pass over options after -o that are unknown")
	flags.VarP(&f.options, "options", "o", "comma-separated options as mount(8) passes them: the kernel's, or these flags (view=png,cache=4GiB), but for --foreground")
	flags.DurationVar(&f.timeout, "timeout", fs.DefaultTimeout, "how long the kernel may answer for names and attributes without asking; 0 for never")
	flags.IntVarP(&f.jobs, "jobs", "j", runtime.GOMAXPROCS(0), "decoding threads")
	flags.Var(&f.readAhead, "read-ahead", "images decoded ahead of a reader that goes through a folder in order, or off")
	flags.BoolVar(&f.keepDuplicates, "keep-duplicates", false, "show the images that the last PCR record repeats from the one before")
	flags.BoolVar(&f.tolerate, "tolerate-jpeg-warnings", false, "serve JPEGs that are corrupt, as far as libjpeg makes something of them")
	flags.Var(&f.maxGap, "max-gap", "bytes of a PCR record that are read rather than skipped; 0 for none (default: what suits the store)")
	flags.Var(&f.throttle, "throttle", "read no more than this from the source in a second, to see what a slow disk or network does")
	flags.StringVar(&f.tableDir, "table-dir", "", "where tables of PCR datasets are kept, or - for nowhere (default: prismfs/tables in the user's cache folder)")
}

// mountOptions checks the flags.
func (f *mountFlags) mountOptions(source, mountpoint string) (fs.Options, error) {
	var opt fs.Options
	view, err := fs.ParseView(f.view)
	if err != nil {
		return opt, withStatus(statusUsage, err)
	}
	force, err := fs.ParseFallbacks(os.Getenv(fs.EnvForce), os.Getenv(fs.EnvFault), os.Getenv(fs.EnvStore))
	if err != nil {
		return opt, withStatus(statusUsage, err)
	}
	backend, err := gpudecode.ParseBackend(f.backend)
	if err != nil {
		return opt, usageError("--backend %q is none of auto, cpu, cuda", f.backend)
	}
	if f.device != "" && backend == gpudecode.BackendCPU {
		return opt, usageError("--device %s says which GPU decodes, and --backend cpu that none does", f.device)
	}
	if f.jobs < 1 {
		return opt, usageError("--jobs %d: at least one thread is needed", f.jobs)
	}
	if f.cache != 0 && f.cache < minCacheBytes {
		return opt, usageError("--cache %v: at least %v is needed", &f.cache, humanize.IBytes(minCacheBytes))
	}
	if f.timeout < 0 {
		return opt, usageError("--timeout %v is negative", f.timeout)
	}
	timeout := f.timeout
	if timeout == 0 {
		timeout = -1 // none, where 0 is the default
	}
	return fs.Options{
		Source: source, Mountpoint: mountpoint,
		View: view, CacheBytes: int64(f.cache), CachePolicy: cache.Policy(f.policy), Workers: f.jobs, ReadAhead: int(f.readAhead),
		Backend: backend, Device: f.device,
		AllowOther: f.allowOther, NonEmpty: f.nonEmpty, Mkdir: f.mkdir, MountOptions: f.options.kernel,
		EntryTimeout: timeout, AttrTimeout: timeout,
		KeepDuplicates: f.keepDuplicates, TolerateJPEGWarnings: f.tolerate,
		MaxGap: f.maxGap.option(), Throttle: int64(f.throttle), TableDir: f.tableDir,
		Logger: slog.Default(), Version: versionString(), Force: force,
	}, nil
}

// statusOfMount maps what went wrong to an exit status.
func statusOfMount(err error) exitStatus {
	var source *fs.SourceError
	var mount *fs.MountError
	var device *fs.DeviceError
	switch {
	case errors.As(err, &source):
		return statusBadInput
	case errors.As(err, &device):
		return statusNoDevice
	case errors.As(err, &mount):
		switch mount.Why() {
		case fs.ReasonMountpoint:
			return statusMountPoint
		case fs.ReasonNoFuse:
			return statusNoFuse
		case fs.ReasonNoFusermount:
			return statusNoFusermount
		case fs.ReasonNotPermitted:
			return statusNotPermitted
		case fs.ReasonForbidden:
			return statusForbidden
		case fs.ReasonMounted:
			return statusMounted
		case fs.ReasonNotMounted:
			return statusNotMounted
		case fs.ReasonNoAnswer:
			return statusMountNoAnswer
		case fs.ReasonBusy:
			return statusUnmountBusy
		}
	}
	return statusFailed
}
