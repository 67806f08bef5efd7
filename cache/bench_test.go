package cache

import (
	"fmt"
	"sync/atomic"
	"testing"
)

// kB of an ImageNet photo decoded, and of a 64×64 image, as .npy.
var benchSizes = []int64{1_200_000, 12_288 + 128}

func BenchmarkHit(b *testing.B) {
	c := newCache(b, Options{Budget: 64 << 20})
	const keys = 1024
	for key := range keys {
		pass(b, c, key, 1)
	}
	fill := never(b)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		buf, err := c.Get(i%keys, 1, fill)
		if err != nil {
			b.Fatal(err)
		}
		buf.Unpin()
	}
}

func BenchmarkHitParallel(b *testing.B) {
	c := newCache(b, Options{Budget: 64 << 20})
	const keys = 1024
	for key := range keys {
		pass(b, c, key, 1)
	}
	fill := never(b)
	b.ResetTimer()
	b.RunParallel(func(p *testing.PB) {
		for i := 0; p.Next(); i++ {
			buf, err := c.Get(i%keys, 1, fill)
			if err != nil {
				b.Error(err)
				return
			}
			buf.Unpin()
		}
	})
}

// BenchmarkFill measures a miss of a full cache: a copy stands for decoding,
// and each fill evicts one.
func BenchmarkFill(b *testing.B) {
	benchFill(b, func(b *testing.B, c *Cache[int], size int64) {
		image := expect(1, size)
		for i := 0; b.Loop(); i++ {
			buf, err := c.Get(i, size, func(dst []byte) error { copy(dst, image); return nil })
			if err != nil {
				b.Fatal(err)
			}
			buf.Unpin()
		}
	})
}

func BenchmarkFillParallel(b *testing.B) {
	benchFill(b, func(b *testing.B, c *Cache[int], size int64) {
		image := expect(1, size)
		var next atomic.Int64
		b.RunParallel(func(p *testing.PB) {
			for p.Next() {
				buf, err := c.Get(int(next.Add(1)), size, func(dst []byte) error { copy(dst, image); return nil })
				if err != nil {
					b.Error(err)
					return
				}
				buf.Unpin()
			}
		})
	})
}

func benchFill(b *testing.B, run func(b *testing.B, c *Cache[int], size int64)) {
	const budget, allowance = 64 << 20, 16 << 20
	media := []struct {
		name string
		make func(b *testing.B) Medium
	}{
		{"tmpfs", func(b *testing.B) Medium { return newTmpfs(b, budget+allowance) }},
		{"memfd", func(*testing.B) Medium { return NewMemfd() }},
		{"memory", func(*testing.B) Medium { return NewMemory(warmBytes) }},
	}
	for _, m := range media {
		for _, size := range benchSizes {
			b.Run(fmt.Sprintf("%s/%d", m.name, size), func(b *testing.B) {
				c := newCache(b, Options{Budget: budget, PinAllowance: allowance, Medium: m.make(b)})
				for key := int64(-1); key*size > -budget; key-- {
					pass(b, c, int(key), size)
				}
				b.SetBytes(size)
				b.ReportAllocs()
				b.ResetTimer()
				run(b, c, size)
			})
		}
	}
}
