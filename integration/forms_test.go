package integration

import (
	"testing"
)

// TestForms reads every form of every picture and compares it with what NumPy
// makes of the source's pixels.
func TestForms(t *testing.T) {
	f := testFixtures(t)
	eachMode(t, func(t *testing.T, m mode) {
		mt := mount(t, f.packed, m)
		check(t, "arrays", args{"mount": mt.dir, "expected": f.expected})
		check(t, "forms", args{"mount": mt.dir, "expected": f.expected, "packed": f.packed})
		check(t, "sixteen_bits", args{"mount": mt.dir, "expected": f.expected})
		check(t, "original_names", args{"mount": mt.dir, "source": f.photos, "expected": f.expected})
		check(t, "copies", args{"mount": mt.dir, "expected": f.expected, "work": scratch(t)})
	})
}

// TestOffsets reads pieces of files at random places, by the page cache and
// past it, before and after the kernel has forgotten them.
func TestOffsets(t *testing.T) {
	f := testFixtures(t)
	eachMode(t, func(t *testing.T, m mode) {
		mt := mount(t, f.packed, m)
		for seed, direct := range []bool{true, false, true, false} {
			check(t, "offsets", args{"mount": mt.dir, "expected": f.expected, "direct": direct, "seed": seed})
			if seed == 1 {
				check(t, "drop_caches", args{})
			}
		}
	})
}
