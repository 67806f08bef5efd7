package gpudecode

import (
	"time"

	"prismfs/l3"
)

// costs are what decoding has taken, on the device and on the CPU, and what it
// will take going by that. Old measures count less and less.
type costs struct {
	device line
	cpu    map[costKey]*mean

	// skipped is how often the device was not chosen since it was last used,
	// cpuSkipped how often the CPU was not, of each kind.
	skipped    int
	cpuSkipped map[costKey]int
}

// A costKey is a kind of work on the CPU.
type costKey struct {
	coding l3.Coding
	helped bool // so large that free places help
}

// remeasureAfter is the number of requests after which one goes where requests
// have not gone, because what was true once may not be so now. It costs one in as
// many.
const remeasureAfter = 256

// forget is how much a measure counts beside the next one.
const forget = 0.9

// A mean is nanoseconds for each byte of samples.
type mean struct{ perByte float64 }

func (m *mean) add(bytes int64, took time.Duration) {
	now := float64(took) / float64(max(bytes, 1))
	if m.perByte == 0 {
		m.perByte = now
	}
	m.perByte = forget*m.perByte + (1-forget)*now
}

// A line is the time of a batch as that of an empty one and a share for each
// byte: the straight line through the measures.
type line struct{ n, x, y, xx, xy float64 }

func (l *line) add(bytes int64, took time.Duration) {
	x, y := float64(bytes), float64(took)
	l.n, l.x, l.y = forget*l.n+1, forget*l.x+x, forget*l.y+y
	l.xx, l.xy = forget*l.xx+x*x, forget*l.xy+x*y
}

func (l *line) known() bool { return l.n > 0 }

// at returns the time of a batch of so many bytes. Where all batches were of
// nearly one size they say nothing of others: then the time of a larger one is
// taken to grow as its size, and that of a smaller one not to shrink.
func (l *line) at(bytes int64) float64 {
	x := float64(bytes)
	meanX, meanY := l.x/l.n, l.y/l.n
	spread := l.xx/l.n - meanX*meanX
	if spread <= 0.01*meanX*meanX {
		return meanY * max(1, x/max(meanX, 1))
	}
	slope := max(0, (l.xy/l.n-meanX*meanY)/spread)
	return max(meanY+slope*(x-meanX), meanY*min(1, x/max(meanX, 1)))
}

// A load is what is to be done before a request.
type load struct {
	laneIdle      bool
	deviceWaiting int64 // bytes of samples
	placeIdle     bool
	cpuWaiting    float64 // images for each place
}

// deviceFirst reports whether a request of so many bytes is done sooner on the
// device.
func (c *costs) deviceFirst(key costKey, bytes int64, now load) bool {
	cpu := c.cpu[key]
	switch {
	case !c.device.known():
		return true
	case cpu == nil:
		return !now.placeIdle
	case c.skipped >= remeasureAfter:
		return true
	case c.cpuSkipped[key] >= remeasureAfter && now.placeIdle:
		return false
	}
	device := c.device.at(bytes + now.deviceWaiting)
	if !now.laneIdle {
		device += c.device.y / c.device.n / 2 // what is left of a batch that runs, on average
	}
	here := cpu.perByte * float64(bytes)
	if !now.placeIdle {
		here *= 1 + now.cpuWaiting
	}
	return device <= here
}

// chosen counts a choice.
func (c *costs) chosen(key costKey, device bool) {
	if c.cpuSkipped == nil {
		c.cpuSkipped = make(map[costKey]int)
	}
	if device {
		c.skipped = 0
		c.cpuSkipped[key]++
		return
	}
	c.skipped++
	c.cpuSkipped[key] = 0
}

// decodedHere adds what the CPU took.
func (c *costs) decodedHere(key costKey, bytes int64, took time.Duration) {
	if c.cpu == nil {
		c.cpu = make(map[costKey]*mean)
	}
	m := c.cpu[key]
	if m == nil {
		m = new(mean)
		c.cpu[key] = m
	}
	m.add(bytes, took)
}
