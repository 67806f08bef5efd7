package l3

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// lane returns lane i of a word.
func (d *depth) lane(x uint64, i int) int {
	return int(x >> (uint(i) * d.bits) & d.laneMask(1))
}

// word draws a word whose lanes are often at the ends of their range.
func word(t *rapid.T, d *depth, label string) uint64 {
	top := int(d.laneMask(1))
	value := rapid.OneOf(rapid.IntRange(0, top), rapid.SampledFrom([]int{0, 1, top / 2, top/2 + 1, top - 1, top}))
	var x uint64
	for i := range d.perWord {
		x |= uint64(value.Draw(t, fmt.Sprint(label, i))) << (uint(i) * d.bits)
	}
	return x
}

func depths(t *testing.T, f func(t *testing.T, d *depth)) {
	for _, d := range []*depth{&depth8, &depth16} {
		t.Run(fmt.Sprintf("%d bits", d.bits), func(t *testing.T) { f(t, d) })
	}
}

// TestLaneArithmetic holds each operation to its definition on plain integers.
func TestLaneArithmetic(t *testing.T) {
	depths(t, func(t *testing.T, d *depth) {
		top := int(d.laneMask(1))
		signed := func(x int) int { return (x+top/2+1)&top - top/2 - 1 }
		operations := []struct {
			name string
			got  func(x, y uint64) uint64
			want func(x, y int) int
		}{
			{"add", func(x, y uint64) uint64 { return add(x, y, d.high) }, func(x, y int) int { return x + y }},
			{"sub", func(x, y uint64) uint64 { return sub(x, y, d.high) }, func(x, y int) int { return x - y }},
			{"avg", func(x, y uint64) uint64 { return avg(x, y, d.high) }, func(x, y int) int { return (x + y + 1) >> 1 }},
			{"half", func(x, _ uint64) uint64 { return half(x, d.high) }, func(x, _ int) int { return x >> 1 }},
			{"halfDifference", func(x, y uint64) uint64 { return halfDifference(x, y, d.high) }, func(x, y int) int { return (x - y) >> 1 }},
			{"addSaturated", func(x, y uint64) uint64 { return addSaturated(x, y, d.high, d.bits) }, func(x, y int) int { return min(x+y, top) }},
			{"subSaturated", func(x, y uint64) uint64 { return subSaturated(x, y, d.high, d.bits) }, func(x, y int) int { return max(x-y, 0) }},
			{"zigzag", func(x, _ uint64) uint64 { return zigzag(x, d.high, d.low, d.bits) }, func(x, _ int) int {
				if s := signed(x); s < 0 {
					return -2*s - 1
				} else {
					return 2 * s
				}
			}},
			{"unzigzag", func(x, _ uint64) uint64 { return unzigzag(zigzag(x, d.high, d.low, d.bits), d.high, d.low, d.bits) }, func(x, _ int) int { return x }},
		}
		rapid.Check(t, func(t *rapid.T) {
			x, y := word(t, d, "x"), word(t, d, "y")
			for _, op := range operations {
				got := op.got(x, y)
				for i := range d.perWord {
					if a, b := d.lane(x, i), d.lane(y, i); d.lane(got, i) != op.want(a, b)&top {
						t.Fatalf("%s(%d, %d) = %d, want %d", op.name, a, b, d.lane(got, i), op.want(a, b)&top)
					}
				}
			}
			sum, sums := 0, prefixSum(x, d.high, d.bits)
			for i := range d.perWord {
				sum += d.lane(x, i)
				if d.lane(sums, i) != sum&top {
					t.Fatalf("prefix sum of %x is %x", x, sums)
				}
			}
		})
	})
}

// TestPackings packs and unpacks every width, with junk above the packed
// values.
func TestPackings(t *testing.T) {
	for width := range uint(9) {
		p := &packings8[width]
		rapid.Check(t, func(t *rapid.T) {
			x := word(t, &depth8, "x") & (depth8.low * (1<<width - 1))
			packed := p.pack(x, 3)
			for i := range 8 {
				if got := packed >> (uint(i) * width) & (1<<width - 1); int(got) != depth8.lane(x, i) {
					t.Fatalf("width %d: value %d of %x is %d", width, i, x, got)
				}
			}
			junk := rapid.Uint64().Draw(t, "junk") << (8 * width)
			if width == 8 {
				junk = 0
			}
			if got := p.unpack8(packed | junk); got != x {
				t.Fatalf("width %d: %x unpacks to %x", width, x, got)
			}
		})
	}
	for width := range uint(17) {
		p := &packings16[width]
		rapid.Check(t, func(t *rapid.T) {
			x := word(t, &depth16, "x") & (depth16.low * (1<<width - 1))
			packed := p.pack(x, 2)
			for i := range 4 {
				if got := packed >> (uint(i) * width) & (1<<width - 1); int(got) != depth16.lane(x, i) {
					t.Fatalf("width %d: value %d of %x is %d", width, i, x, got)
				}
			}
			junk := rapid.Uint64().Draw(t, "junk") << (4 * width)
			if got := p.unpack16(packed | junk); got != x {
				t.Fatalf("width %d: %x unpacks to %x", width, x, got)
			}
		})
	}
}

func TestWidthCodes(t *testing.T) {
	depths(t, func(t *testing.T, d *depth) {
		for v := range d.laneMask(1) + 1 {
			code := d.widthCode(v)
			if width := d.width(uint64(code)); v>>width != 0 {
				t.Fatalf("%d does not fit %d bits", v, width)
			}
			if code > 0 && v>>d.width(uint64(code-1)) == 0 {
				t.Fatalf("%d has code %d, %d would do", v, code, code-1)
			}
		}
	})
}
