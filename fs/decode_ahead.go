package fs

import (
	"bytes"
	"fmt"
	"os"
	"path"
	"runtime"
	"strconv"
	"strings"

	"prismfs/dataset"
	"prismfs/order"
	"prismfs/tensor"
)

// aheadShare: what is decoded ahead of readers and not yet opened takes at most
// 1/8 of the cache's budget, or what its policy has room for.
const aheadShare = 8

// aheadFolder is a folder of the source in the form and at the fidelity in which
// it is read.
type aheadFolder struct {
	path     string
	form     tensor.Form
	fidelity int // as the view has it; 0 is full
}

// aheadOf returns the folder of a sample and the name of its file there.
func aheadOf(c content, v View) (aheadFolder, string) {
	slash := strings.LastIndexByte(c.sample.Path, '/')
	return aheadFolder{path: c.sample.Path[:max(slash, 0)], form: c.form, fidelity: v.Fidelity}, c.sample.Path[slash+1:]
}

// newReadAhead returns what decodes ahead of readers, nil if nothing is to.
func (m *mount) newReadAhead() *order.ReadAhead[aheadFolder] {
	if m.opt.ReadAhead < 0 {
		return nil
	}
	m.idle = new(processors)
	if !m.opt.Force.ReadAhead {
		m.idle = openProcessors()
	}
	return order.New(&aheadSource{m}, order.Options{
		Images:  m.opt.ReadAhead,
		Workers: runtime.GOMAXPROCS(0),
		Bytes:   func() int64 { return m.cache.Ahead(aheadShare) },
	})
}

// aheadSource is the mount as package order sees it.
type aheadSource struct{ m *mount }

// List names the files of samples. Damaged ones are among them, and so are those
// that the form cannot hold: whether they are would take their headers.
func (a *aheadSource) List(in aheadFolder, limit int) ([]string, error) {
	var names []string
	err := a.m.ds.Scan(background, in.path, func(e dataset.DirEntry) bool {
		if e.Kind == dataset.Regular && dataset.IsSample(e.Name) {
			names = append(names, e.Name)
		}
		return len(names) <= limit
	})
	if err == nil && len(names) > limit {
		err = fmt.Errorf("more than %d samples in %s", limit, in.path)
	}
	return names, err
}

// Next returns the folder that a reader comes to who goes through all of them by
// name, as torchvision's ImageFolder does.
func (a *aheadSource) Next(in aheadFolder) (aheadFolder, bool) {
	if in.path == "" {
		return in, false
	}
	above, name := path.Split(in.path)
	next := ""
	err := a.m.ds.Scan(background, strings.TrimSuffix(above, "/"), func(e dataset.DirEntry) bool {
		if e.Kind == dataset.Dir && e.Name > name && (next == "" || e.Name < next) {
			next = e.Name
		}
		return true
	})
	in.path = above + next
	return in, err == nil && next != ""
}

// Make decodes a sample into the cache.
func (a *aheadSource) Make(in aheadFolder, name string) (int64, bool, error) {
	s, err := a.m.ds.Sample(background, path.Join(in.path, name))
	if err != nil {
		return 0, false, err
	}
	c, err := contentOf(background, a.m.ds, s, View{Form: in.form, Fidelity: in.fidelity})
	if err != nil {
		return 0, false, err
	}
	made, err := a.m.cache.Prefetch(c.key(), c.size, func(dst []byte) error {
		return a.m.fill(c, dst, asked{ahead: true})
	})
	return c.size, made, err
}

// Spare reports whether there is a processor that could decode.
func (a *aheadSource) Spare() bool { return a.m.decoder.Spare() && a.m.idle.spare() }

// processors tells whether the machine has a processor to spare. The zero value
// says so always.
type processors struct {
	load  *os.File // nil where the system does not say
	count int
}

func openProcessors() *processors {
	p := &processors{count: runtime.NumCPU()}
	// A machine has more of them than this process may use, and runs more.
	if text, err := os.ReadFile("/sys/devices/system/cpu/online"); err == nil {
		p.count = max(p.count, countRanges(string(bytes.TrimSpace(text))))
	}
	if f, err := os.Open("/proc/loadavg"); err == nil {
		p.load = f
	}
	return p
}

func (p *processors) close() {
	if p.load != nil {
		p.load.Close()
	}
}

// spare reports whether few threads wait for a processor, half as many as there
// are at most: those of a loader run by turns, and some are about to wait for
// what is to be decoded. This goroutine's own thread counts as well.
func (p *processors) spare() bool {
	if p.load == nil {
		return true
	}
	var buf [128]byte
	n, _ := p.load.ReadAt(buf[:], 0)
	running, ok := parseRunning(buf[:n])
	return !ok || running <= p.count+p.count/2
}

// parseRunning returns the number of threads that run or could run, out of the
// fourth field of /proc/loadavg: "0.20 0.18 0.12 1/80 11206".
func parseRunning(loadavg []byte) (int, bool) {
	for range 3 {
		_, rest, ok := bytes.Cut(loadavg, []byte(" "))
		if !ok {
			return 0, false
		}
		loadavg = rest
	}
	field, _, ok := bytes.Cut(loadavg, []byte("/"))
	if !ok {
		return 0, false
	}
	n := 0
	for _, c := range field {
		if c < '0' || c > '9' || n > 1<<20 {
			return 0, false
		}
		n = 10*n + int(c-'0')
	}
	return n, len(field) > 0
}

// countRanges counts the numbers in a list such as 0-3,6.
func countRanges(list string) int {
	count := 0
	for part := range strings.SplitSeq(list, ",") {
		low, high, isRange := strings.Cut(part, "-")
		first, err := strconv.Atoi(low)
		if err != nil {
			return 0
		}
		last := first
		if isRange {
			if last, err = strconv.Atoi(high); err != nil || last < first || last > 1<<20 {
				return 0
			}
		}
		count += last - first + 1
	}
	return count
}
