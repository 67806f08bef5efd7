package gpudecode

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"prismfs/l3"
)

var key8 = costKey{coding: l3.Fast8}

// measured returns costs of a device that takes a fixed time and so much a byte,
// and of a CPU that takes so much a byte.
func measured(fixed time.Duration, deviceByte, cpuByte float64) *costs {
	c := new(costs)
	for i := range 50 {
		bytes := int64(1000 * (1 + i%10))
		c.device.add(bytes, fixed+time.Duration(deviceByte*float64(bytes)))
		c.decodedHere(key8, bytes, time.Duration(cpuByte*float64(bytes)))
	}
	return c
}

var idle = load{laneIdle: true, placeIdle: true}

// TestSmallHereLargeThere: a lone request goes where it is done first.
func TestSmallHereLargeThere(t *testing.T) {
	c := measured(100*time.Microsecond, 1, 10) // equal at 11,111 bytes
	for bytes, want := range map[int64]bool{1000: false, 10000: false, 13000: true, 1000000: true} {
		if got := c.deviceFirst(key8, bytes, idle); got != want {
			t.Errorf("%d bytes: on the device %v", bytes, got)
		}
	}
	if !c.deviceFirst(key8, 5000, load{laneIdle: true, cpuWaiting: 3}) {
		t.Error("a request waits for a place while the device is idle")
	}
	if c.deviceFirst(key8, 13000, load{placeIdle: true, deviceWaiting: 1000000}) {
		t.Error("a request waits for the device while a place is idle")
	}
}

// TestCostsAreMeasured: what has not been measured is tried, and what was slow is
// tried again after a while.
func TestCostsAreMeasured(t *testing.T) {
	c := new(costs)
	if !c.deviceFirst(key8, 1000, idle) {
		t.Error("the device is not tried")
	}
	c.device.add(1000, time.Hour)
	if c.deviceFirst(key8, 1000, idle) {
		t.Error("the CPU is not tried")
	}
	c.decodedHere(key8, 1000, time.Millisecond)
	tries := 0
	for range 3 * remeasureAfter {
		first := c.deviceFirst(key8, 1000, idle)
		c.chosen(key8, first)
		if first {
			tries++
		}
	}
	if tries < 2 || tries > 3 {
		t.Errorf("a slow device was tried %d times in %d", tries, 3*remeasureAfter)
	}
	c = measured(0, 1, 1000)
	tries = 0
	for range 3 * remeasureAfter {
		first := c.deviceFirst(key8, 1000, idle)
		c.chosen(key8, first)
		if !first {
			tries++
		}
	}
	if tries < 2 || tries > 3 {
		t.Errorf("a slow CPU was tried %d times in %d", tries, 3*remeasureAfter)
	}
}

// TestLine: the estimate is right on a line, and sane whatever was measured.
func TestLine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fixed := rapid.Float64Range(1, 1e7).Draw(t, "fixed")
		each := rapid.Float64Range(0.001, 10).Draw(t, "each")
		var l line
		for i := range 20 {
			x := float64(1+i%5) * 1e6
			l.add(int64(x), time.Duration(fixed+each*x))
		}
		if got, want := l.at(4e6), fixed+each*4e6; math.Abs(got-want) > 0.02*want {
			t.Fatalf("%v, want %v", got, want)
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		var l line
		for range rapid.IntRange(1, 30).Draw(t, "n") {
			l.add(rapid.Int64Range(0, 1<<40).Draw(t, "bytes"), time.Duration(rapid.Int64Range(0, 1<<40).Draw(t, "took")))
		}
		if v := l.at(rapid.Int64Range(0, 1<<40).Draw(t, "of")); v < 0 || math.IsNaN(v) || math.IsInf(v, 0) {
			t.Fatalf("an estimate of %v", v)
		}
	})
}
