package fs

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	gofs "github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"prismfs/cache"
	"prismfs/dataset"
	"prismfs/gpudecode"
	"prismfs/l3"
	"prismfs/order"
)

// The numbers of a mount that are not options.
const (
	// maxBackground is how many reads the kernel keeps going at once, read-ahead
	// included.
	maxBackground = 64
	// pinAllowanceShare: files in use may exceed the cache's budget by so much
	// of it, 1/2. Loaders hold a few files each; more is a map that stays.
	pinAllowanceShare = 2
	// The private tmpfs has room for a little more than the cache ever holds: 1/64 of
	// its budget, within these bounds. A file that was given back keeps its pages
	// until the last reader's process has really closed it, a moment later; and
	// somebody who closes a file may keep it mapped, which the cache cannot see. So
	// it is the size of the tmpfs that bounds the memory, not what the cache counts.
	mediumSlackShare = 64
	minMediumSlack   = 1 << 20
	maxMediumSlack   = 64 << 20
)

// addedSuffix is the length of the longest suffix of a view's files, which all but that
// of L3 have.
const addedSuffix = uint32(len(".npy"))

// DefaultTimeout is how long the kernel may answer for names and attributes
// without asking: a file removed from the source is seen for so long at most.
const DefaultTimeout = time.Minute

// Options say what is mounted where and how.
type Options struct {
	Source     string // folder of the dataset
	Mountpoint string
	View       View
	// CacheBytes is the budget for decoded files; 0 takes a quarter of what
	// machine and cgroup have free.
	CacheBytes int64
	// CachePolicy says which decoded files stay when there is no room for all.
	CachePolicy cache.Policy
	// Workers is the number of decoding threads; 0 takes one a CPU.
	Workers int
	// Backend says what decodes: gpudecode.BackendCUDA is refused where there is no
	// device. Device is the one to use, "" the freest.
	Backend gpudecode.Backend
	Device  string
	// ReadAhead is how many images are decoded ahead of a reader that goes
	// through a folder; 0 takes order.DefaultImages, a negative one is none.
	ReadAhead int
	// AllowOther lets other users read, as the permissions of the source allow.
	AllowOther bool
	// MountOptions are further options as mount(8) passes them.
	MountOptions []string
	// NonEmpty allows a mount point that has files, which the mount hides.
	NonEmpty bool
	// Mkdir makes the mount point if it is missing, and the folders above it. They stay.
	Mkdir        bool
	EntryTimeout time.Duration // of names; 0 takes DefaultTimeout, a negative one is none
	AttrTimeout  time.Duration // of attributes; the same
	Limits       l3.Limits     // of one image; the zero value takes the default
	// KeepDuplicates shows the images that the last record of a PCR dataset has
	// from the record before it.
	KeepDuplicates bool
	// TolerateJPEGWarnings serves JPEGs of which libjpeg says that they are
	// corrupt, as PIL would.
	TolerateJPEGWarnings bool
	// MaxGap is how many unneeded bytes are read rather than left out between
	// two ranges of a record; 0 is what suits the store, negative none.
	MaxGap int64
	// TableDir is where tables of PCR datasets are kept; "" is the user's cache
	// folder, - nowhere.
	TableDir string
	// Throttle bounds what is read from the source, in bytes a second, as a slow
	// disk or network would; 0 is no bound.
	Throttle int64
	// LogFile is the file that Logger writes to, "" for none that has a name. It is
	// told to whoever asks for the state of the mount.
	LogFile string
	// Alone says that the mount is seen by this user alone, in a namespace that
	// knows no other user and group: what may be read is decided by opening it in the
	// source, since the kernel could not tell there what the user's groups allow.
	Alone   bool
	Logger  *slog.Logger
	Version string
	Force   Fallbacks
}

// Mounted is a mount that answers.
type Mounted struct {
	m      *mount
	server *fuse.Server
	once   sync.Once
	closed error
}

// mount is what the nodes of one mount share.
type mount struct {
	opt     Options
	log     *slog.Logger
	tail    *logTail
	store   dataset.Store
	local   *dataset.LocalStore // that store reads from; nil where a test has another one
	ds      *dataset.Dataset
	names   resolver
	decoder *gpudecode.Decoder
	health  healthMemory
	cache   *cache.Cache[bufferKey]
	ahead   *order.ReadAhead[aheadFolder] // nil for none
	idle    *processors                   // that decode ahead
	plans   *plans
	streams *streams
	direct  directReads
	sizes   requestSizes
	readers *readerTimes
	layer   *kernelLayer
	control *control
	auto    *fidelities
	echo    *echoViews
	socket  *controlSocket // nil for none
	ready   atomic.Bool    // it is mounted, and counts what can be asked for
	started time.Time
	pid     int
	device  string // of the mount, major:minor; "" where that is not known
	gone    lostSource
	closing chan struct{} // closed when the mount is gone

	passthrough   bool
	noPassthrough string // why not
	medium        string
	keepScratch   int64 // the largest scratch memory of a fill that is kept for the next; 0 for any
	cut           bool  // the cache is smaller than it would be: too little memory is free

	served, errors atomic.Uint64
	storeNS        atomic.Uint64 // spent reading stored bytes
	panics         atomic.Uint64 // in requests
	reported       reports
	explained      explained
	refusals       rate // of backing files by the kernel
	slowLines      rate // about requests that take long
}

// Mount mounts a dataset and returns once the mount answers.
func Mount(opt Options) (*Mounted, error) {
	setDefaults(&opt)
	var err error
	fd, handedOver := HandedOver(opt.Mountpoint)
	switch {
	case handedOver:
		opt.Mountpoint = filepath.Clean(opt.Mountpoint)
		err = checkHandedOver(opt.Mountpoint, fd)
	default:
		if opt.Mkdir {
			if err := makeParents(opt.Source, opt.Mountpoint); err != nil {
				return nil, &MountError{Mountpoint: opt.Mountpoint, Reason: reasonOf(err, ReasonMountpoint), Err: err}
			}
		}
		unlock, lockErr := lockMountpoint(opt.Mountpoint)
		if lockErr != nil {
			return nil, lockErr
		}
		defer unlock()
		if opt.Mountpoint, err = checkMountpoint(opt.Source, opt.Mountpoint, opt.NonEmpty, opt.Mkdir, opt.Logger); err == nil {
			err = checkFuse(opt.Mountpoint)
		}
	}
	if err != nil {
		return nil, err
	}
	if opt.Source, err = filepath.Abs(opt.Source); err != nil {
		return nil, &SourceError{err}
	}
	local, err := dataset.OpenLocal(opt.Source)
	if err != nil {
		return nil, &SourceError{err}
	}
	if opt.AllowOther || handedOver { // who made such a mount said who may look into it
		local.WatchLinks()
	}
	var store dataset.Store = local
	if opt.Force.Store.String() != "" {
		store = dataset.Faulty(store, opt.Force.Store)
	}
	if opt.Throttle > 0 {
		store = dataset.Throttle(store, opt.Throttle)
	}
	m, err := newMount(opt, store)
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	m.local = local
	if m.socket, err = m.openControlSocket(); err != nil {
		m.log.Warn("no control socket; the fidelity of auto views cannot be set", "error", err)
	}
	server, err := m.serve()
	if err != nil {
		m.socket.close()
		m.decoder.Close()
		return nil, errors.Join(err, store.Close())
	}
	if handedOver {
		// Where the mount is, and so its device, is known to who made it.
	} else if err := raiseReadAhead(opt.Mountpoint); err != nil && !m.passthrough {
		m.log.Debug("the kernel's read-ahead stays small; reads of whole files could be faster", "error", err)
	}
	m.beginAnswering()
	m.warnOfSource()
	go m.watchSource(local)
	m.log.Info("mounted", "source", store.String(), "mountpoint", opt.Mountpoint, "view", opt.View.String(),
		"cache_bytes", m.cacheStats().Budget, "medium", m.medium, "passthrough", m.stats().Passthrough)
	return &Mounted{m: m, server: server}, nil
}

// warnOfSource says what a quick look finds wrong with PCR folders, or that nothing
// is packed. It is no reason not to mount: what is right is shown.
func (m *mount) warnOfSource() {
	lines, err := m.ds.Check(background, "")
	if err != nil {
		m.log.Warn("the source could not be looked over", "error", err)
	}
	for _, line := range lines {
		m.log.Warn(line)
	}
	if _, err := m.ds.Stat(background, controlName); err == nil {
		m.log.Warn("a name of the source cannot be seen: the mount shows its own control files under it; rename it in the source", "name", controlName)
	}
	if line := m.ds.Unpacked(background); line != "" {
		m.log.Warn(line)
	}
}

// serve connects to the kernel and begins to answer it.
func (m *mount) serve() (*fuse.Server, error) {
	info, err := m.ds.Stat(background, "")
	if err != nil {
		return nil, &SourceError{err}
	}
	root := &dirNode{m: m, at: place{view: m.opt.View}, id: info.ID}
	m.layer.RawFileSystem = gofs.NewNodeFS(root, nodeOptions(m.opt))
	mem, err := cache.ReadMemory()
	if err != nil {
		return nil, err
	}
	m.sizes = requestSizesFor(mem.Free())
	options := mountOptions(m.opt, m.sizes, m.log)
	options.PanicHandler = m.panicked
	server, err := newServer(m.layer, m.opt.Mountpoint, options)
	if err != nil {
		if _, ok := HandedOver(m.opt.Mountpoint); ok {
			return nil, &MountError{Mountpoint: m.opt.Mountpoint, Reason: ReasonMountpoint, Err: fmt.Errorf("%w: %w", errNotMountedYet, err)}
		}
		return nil, &MountError{Mountpoint: m.opt.Mountpoint, Err: err}
	}
	// The kernel has had the answer to its first request; its others wait until
	// Serve. What comes between decides how opens are answered.
	if err := m.makeCache(server); err != nil {
		go server.Serve() // or Unmount would wait for it
		return nil, errors.Join(err, server.Unmount())
	}
	go server.Serve()
	if err := server.WaitMount(); err != nil {
		err = &MountError{Mountpoint: m.opt.Mountpoint, Err: err}
		close(m.closing)
		return nil, errors.Join(err, server.Unmount(), m.cache.Close())
	}
	return server, nil
}

func setDefaults(opt *Options) {
	for _, t := range []*time.Duration{&opt.EntryTimeout, &opt.AttrTimeout} {
		switch {
		case *t == 0:
			*t = DefaultTimeout
		case *t < 0:
			*t = 0
		}
	}
	if opt.ReadAhead == 0 {
		opt.ReadAhead = order.DefaultImages
	}
	if opt.Limits == (l3.Limits{}) {
		opt.Limits = l3.DefaultLimits
	}
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.DiscardHandler)
	}
}

func newMount(opt Options, store dataset.Store) (*mount, error) {
	tail := new(logTail)
	log := withTail(opt.Logger, tail)
	m := &mount{
		opt:   opt,
		log:   log,
		tail:  tail,
		store: store,
		ds: dataset.Open(store, dataset.Options{
			Limits: opt.Limits, Logger: log,
			KeepDuplicates: opt.KeepDuplicates, MaxGap: opt.MaxGap, TableDir: opt.TableDir,
		}),
		auto:    new(fidelities),
		readers: newReaderTimes(),
		layer:   &kernelLayer{names: newRemembered()},
		started: time.Now(),
		pid:     os.Getpid(),
		closing: make(chan struct{}),
	}
	var err error
	if m.layer.wishes, err = newWishes(); err != nil {
		return nil, err
	}
	if err := m.openDecoder(); err != nil {
		return nil, err
	}
	m.layer.panicked = m.panicked
	m.names = resolver{ds: m.ds, auto: m.auto}
	m.control = newControl(m)
	m.ahead = m.newReadAhead()
	m.echo = newEchoViews(m)
	m.plans = newPlans(m)
	if m.streams, err = newStreams(m); err != nil {
		return nil, err
	}
	return m, nil
}

// nodeOptions configures the node layer.
func nodeOptions(opt Options) *gofs.Options {
	return &gofs.Options{
		// No EntryTimeout: it would take the place of 0, which is what names of
		// auto views have. Lookups say theirs.
		AttrTimeout: &opt.AttrTimeout,
		// No negative timeout: a file that is added is seen at once.

		// Mode 000 means that nobody may read; go-fuse would make it 0644.
		NullPermissions: true,
		RootStableAttr:  &gofs.StableAttr{Ino: fuse.FUSE_ROOT_ID},
	}
}

// mountOptions configures the connection to the kernel.
func mountOptions(opt Options, sizes requestSizes, log *slog.Logger) *fuse.MountOptions {
	_, handedOver := HandedOver(opt.Mountpoint)
	return &fuse.MountOptions{
		FsName:     opt.Source,
		Name:       "prismfs",
		Options:    append(permissionOptions(opt), opt.MountOptions...),
		AllowOther: opt.AllowOther,
		// Mount ourselves where we may; else fusermount3 does.
		DirectMount: !handedOver,
		// Read-only in the VFS: reads would update access times otherwise, which
		// throws away the attributes that the kernel has cached.
		DirectMountFlags: unix.MS_RDONLY | unix.MS_NOSUID | unix.MS_NODEV,

		// MaxWrite is for reads, too (max_read). No MaxReadAhead: it could only make less
		// of what the kernel would read ahead, see readahead.go.
		MaxWrite:                sizes.request,
		MaxBackground:           maxBackground,
		MaxInflightRequestBytes: sizes.inFlight,
		// Splicing gains nothing over copying here, and a request of 1 MiB and
		// its header is more than a pipe holds.
		DisableSplice: true,
		// Maps of files that are open for direct reads, see direct_reads.go. That
		// the kernel always asks for names with attributes (no READDIRPLUS_AUTO) is
		// what listing_plus.go wants.
		ExtraCapabilities: fuse.CAP_DIRECT_IO_ALLOW_MMAP,
		Logger:            connectionLog(log),
	}
}

// permissionOptions has the kernel check permissions by mode, as for any disk,
// but where it cannot.
func permissionOptions(opt Options) []string {
	if opt.Alone {
		return []string{"ro"}
	}
	return []string{"default_permissions", "ro"}
}

// makeCache finds out how buffers can be served and makes the cache for it.
func (m *mount) makeCache(server *fuse.Server) error {
	mem, err := cache.ReadMemory()
	if err != nil {
		return err
	}
	budget := CacheBudget(m.opt.CacheBytes, mem)
	m.tellOfLittleMemory(budget, mem)
	spare := max(spareOf(mem.Free(), budget), 0) / 2 // for large images, and for buffers kept warm
	medium, err := m.openMedium(server, budget, spare)
	if err != nil {
		return err
	}
	opt := cache.Options{Budget: budget, PinAllowance: budget / pinAllowanceShare, Medium: medium, Policy: m.opt.CachePolicy, Scarce: m.echo.echoes.Release}
	if m.passthrough {
		opt.Register = m.registrar(server)
		opt.Unregister = func(id int32) {
			// After the unmount the connection is gone, and the ids with it.
			if errno := server.UnregisterBackingFd(id); errno != 0 && errno != syscall.EBADF {
				m.log.Warn("the kernel does not let go of a backing file", "id", id, "error", errno)
			}
		}
	}
	m.direct.possible = !m.passthrough && mapsDirect(server)
	m.medium = medium.Name()
	if m.cache, err = cache.New[bufferKey](opt); err != nil {
		return errors.Join(err, medium.Close())
	}
	m.cache.LimitWork(workLimit(budget), spare, m.work)
	m.layer.names.limit(namesFor(budget, m.opt.Force))
	m.echo.setBudget(budget)
	go m.watchMemory(budget)
	go m.watchRequests()
	go m.boundNames(server, m.opt.Force)
	return nil
}

// openMedium chooses the best medium that this machine allows: files of a
// private tmpfs or memfds where the kernel serves them itself, else memory,
// since then all bytes pass through this process.
func (m *mount) openMedium(server *fuse.Server, budget, spare int64) (cache.Medium, error) {
	force := m.opt.Force
	m.noPassthrough = whyNoPassthrough(server, force)
	m.passthrough = m.noPassthrough == ""
	switch {
	case force.Memory:
		m.passthrough, m.noPassthrough = false, "buffers are forced to be memory"
		return cache.NewMemory(spare), nil
	case force.Memfd:
		return cache.NewMemfd(), nil
	case !m.passthrough && !force.NoFsopen && force.NoPassthrough:
		// Forced only: files, but read by us. It is the way of a buffer whose
		// registration was refused.
		if t, err := cache.NewTmpfs(tmpfsSize(budget)); err == nil {
			return t, nil
		}
		return cache.NewMemory(spare), nil
	case !m.passthrough:
		return cache.NewMemory(spare), nil
	case force.NoFsopen:
		return cache.NewMemfd(), nil
	}
	t, err := cache.NewTmpfs(tmpfsSize(budget))
	if err != nil {
		m.log.Warn("no private tmpfs, buffers are memfds, which are slower", "error", err)
		return cache.NewMemfd(), nil
	}
	return t, nil
}

func tmpfsSize(budget int64) int64 {
	return budget + budget/pinAllowanceShare + min(max(budget/mediumSlackShare, minMediumSlack), maxMediumSlack)
}

// whyNoPassthrough tries whether the kernel takes backing files from us, and
// returns the reason if it does not.
func whyNoPassthrough(server *fuse.Server, force Fallbacks) string {
	if force.NoPassthrough {
		return "passthrough is forced to be off"
	}
	if server.KernelSettings().Flags64()&fuse.CAP_PASSTHROUGH == 0 {
		return "the kernel has no FUSE passthrough (Linux 6.9 or later, CONFIG_FUSE_PASSTHROUGH)"
	}
	fd, err := unix.MemfdCreate("prismfs-probe", unix.MFD_CLOEXEC)
	if err != nil {
		return fmt.Sprintf("no memfd to try passthrough with: %v", err)
	}
	defer unix.Close(fd)
	id, errno := server.RegisterBackingFd(&fuse.BackingMap{Fd: int32(fd)})
	switch errno {
	case 0:
		server.UnregisterBackingFd(id)
		return ""
	case syscall.EPERM:
		return "passthrough needs CAP_SYS_ADMIN"
	}
	return fmt.Sprintf("the kernel refuses backing files: %v", errno)
}

// registrar returns the function that gives a buffer's file to the kernel.
func (m *mount) registrar(server *fuse.Server) func(fd int) (int32, error) {
	var calls atomic.Uint64
	return func(fd int) (int32, error) {
		if every := m.opt.Force.RefuseEvery; every > 0 && calls.Add(1)%every == 0 {
			return 0, syscall.ENOSPC
		}
		id, errno := server.RegisterBackingFd(&fuse.BackingMap{Fd: int32(fd)})
		if errno != 0 {
			if m.refusals.allow(time.Now()) {
				m.log.Warn("the kernel refused a backing file; it is served by reads", "error", errno)
			}
			return 0, errno
		}
		return id, nil
	}
}

// setTimeouts tells the kernel how long it may answer for a name and its
// attributes by itself.
func (m *mount) setTimeouts(out *fuse.EntryOut) {
	out.SetEntryTimeout(m.opt.EntryTimeout)
	out.SetAttrTimeout(m.opt.AttrTimeout)
}

// statfs reports the source's file system as a full, read-only one.
//
// The longest name is one that is as long as the source allows and has the suffix of a
// view added, x.l3.npy.
func (m *mount) statfs(out *fuse.StatfsOut) syscall.Errno {
	var st unix.Statfs_t
	var err error
	if m.local != nil {
		err = m.local.Statfs(&st) // of the folder, which may have another name by now
	} else {
		err = unix.Statfs(m.opt.Source, &st)
	}
	if err != nil {
		return toErrno(err)
	}
	out.Bsize = uint32(st.Bsize)
	out.Frsize = uint32(st.Frsize)
	out.Blocks = st.Blocks - st.Bfree
	out.Files = st.Files - st.Ffree
	out.NameLen = uint32(st.Namelen) + addedSuffix
	return 0
}

// Stats returns the counters.
func (x *Mounted) Stats() Stats { return x.m.stats() }

// Logger writes where the mount logs, .prismfs/log included.
func (x *Mounted) Logger() *slog.Logger { return x.m.log }

// Wait returns when the file system is unmounted, by whomever.
func (x *Mounted) Wait() {
	x.server.Wait()
	x.once.Do(func() { x.closed = x.m.close() })
}

// ErrDetached says that a mount has left its mount point, by whomever, and is there
// for those alone who have something open in it.
var ErrDetached = errors.New("the mount is detached")

// attached returns ErrDetached if the mount is not at its mount point any more, where
// another one may be by now.
func (m *mount) attached() error {
	if m.device == "" {
		return nil
	}
	entry, ok, err := mountedAt(m.opt.Mountpoint)
	if err == nil && (!ok || entry.device != m.device) {
		err = ErrDetached
	}
	return err
}

// Unmount unmounts. A busy mount stays, and the error says so.
func (x *Mounted) Unmount() error {
	if x.HandedOver() {
		x.Abandon()
		return nil
	}
	if err := x.m.attached(); err != nil {
		return err
	}
	if err := x.server.Unmount(); err != nil {
		return &MountError{Mountpoint: x.m.opt.Mountpoint, Err: err, Unmounting: true}
	}
	x.Wait()
	return x.closed
}

// Detach unmounts lazily: the mount point is free at once, and files that are
// open stay readable until they are closed, when Wait returns.
func (x *Mounted) Detach() error {
	if x.HandedOver() {
		return x.Unmount()
	}
	if err := x.m.attached(); err != nil {
		return err
	}
	return detach(x.m.opt.Mountpoint, true)
}

// Abandon makes ready for the end of this process while the mount is still there, or
// files of it are open: their readers are told that it is dead.
func (x *Mounted) Abandon() { x.m.socket.close() }

// close frees what the mount holds, after the last request.
func (m *mount) close() error {
	close(m.closing)
	m.socket.close()
	m.plans.close()
	if m.ahead != nil {
		m.ahead.Close()
		m.idle.close()
	}
	m.echo.close()
	m.streams.close()
	err := m.cache.Close()
	m.decoder.Close()
	return errors.Join(err, m.store.Close())
}
