package integration

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// TestStoreFaults has a source that goes wrong in many ways: whoever reads gets
// the right bytes or an error, and no error is remembered.
func TestStoreFaults(t *testing.T) {
	f := testFixtures(t)
	for _, c := range []struct {
		name, script string
		errors       []string
		broken       []string
		silent       bool // nobody sees an error
	}{
		{name: "one file", script: "read fail EIO path 005.l3", errors: []string{"EIO"}, broken: []string{"005.npy"}},
		{name: "now and then", script: "read fail EIO every 5; open fail ESTALE every 7", errors: []string{"EIO", "ESTALE"}},
		{name: "wrong bits", script: "read flip 3000 every 3", errors: []string{"EIO"}},
		{name: "always wrong bits", script: "read flip 3000 path 006.l3", errors: []string{"EIO"}, broken: []string{"006.npy"}},
		{name: "short", script: "read cut 3000 every 2", errors: []string{"EIO"}},
		{name: "slow", script: "open delay 20ms every 3; read delay 10ms", silent: true},
		{name: "not found at times", script: "stat fail EIO every 9", errors: []string{"EIO"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, m := range []mode{best, noPassthrough} {
				mt := mountWith(t, f.path("small-packed"), m, []string{"PRISMFS_STORE=" + c.script}, "--cache", "8MiB")
				var failed int
				checkInto(t, &failed, "faulty_reads", args{"mount": mt.dir, "expected": f.path("small"), "errors": append([]string{}, c.errors...), "broken": append([]string{}, c.broken...)})
				if failed > 0 == c.silent {
					t.Errorf("%v: %d errors were counted", m, failed)
				}
			}
		})
	}
}

// TestAnyWay mounts one source in ways that must not matter: the size of the
// cache, the number of threads, what decodes, how files are served, views spelled
// in any way and read in any order.
func TestAnyWay(t *testing.T) {
	f := testFixtures(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	choose := rand.New(rand.NewPCG(seed, 0))
	pick := func(from ...string) string { return from[choose.IntN(len(from))] }
	for i := range 6 {
		m := modes[(int(seed%6)+i)%len(modes)]
		env := []string{"PRISMFS_SIMD=" + pick("", "off"), "GOMAXPROCS=" + pick("1", "2", "5")}
		flags := []string{"--cache", pick("4MiB", "64MiB", "1GiB"), "--jobs", pick("1", "2", "7"), "--read-ahead", pick("off", "8", "40")}
		t.Run(fmt.Sprint(i, m, env, flags), func(t *testing.T) {
			mt := mountWith(t, f.packed, m, env, flags...)
			check(t, "any_way", args{"mount": mt.dir, "expected": f.path("expected"), "seed": fmt.Sprint(seed, i)})
		})
	}
}
