package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// smallOthers are the files that push others out of a small cache.
func smallOthers() []string {
	var names []string
	for i := 4; i < 28; i++ {
		names = append(names, fmt.Sprintf("%03d.npy", i))
	}
	return names
}

// TestOpenAndClose is the trap of backing ids that outlive a file: four
// processes open and close one file while it is evicted again and again. An
// open that got the file of a buffer that was there before has other bytes.
func TestOpenAndClose(t *testing.T) {
	f := testFixtures(t)
	eachMode(t, func(t *testing.T, m mode) {
		seconds := 4 * time.Second
		if m == best {
			seconds = duration(20*time.Second, 6*time.Second)
		}
		mt := mount(t, f.path("small-packed"), m, "--cache", "8MiB")
		check(t, "open_and_close", args{"mount": mt.dir, "name": "000.npy", "expected": f.path("small"), "others": smallOthers(), "seconds": seconds.Seconds()})
	})
}

// TestOneProcessor runs the daemon on one processor, where some races show that
// others hide.
func TestOneProcessor(t *testing.T) {
	f := testFixtures(t)
	for _, m := range []mode{best, noPassthrough} {
		t.Run(m.String(), func(t *testing.T) {
			mt := mountWith(t, f.path("small-packed"), m, []string{"GOMAXPROCS=1"}, "--cache", "8MiB")
			check(t, "one_decode", args{"mount": mt.dir, "name": "001.npy", "expected": f.path("small/001.npy")})
			check(t, "arrays", args{"mount": mt.dir, "expected": f.path("small")})
			check(t, "open_and_close", args{"mount": mt.dir, "name": "000.npy", "expected": f.path("small"), "others": smallOthers(), "seconds": 3})
		})
	}
}

// TestRefusedRegistration is the trap of a backing file that the kernel does
// not take: the mount must go on, each inode in one way.
func TestRefusedRegistration(t *testing.T) {
	f := testFixtures(t)
	for _, every := range []int{1, 2, 3, 7} {
		t.Run(fmt.Sprintf("every=%d", every), func(t *testing.T) {
			fault := fmt.Sprintf("PRISMFS_FAULT=register:%d", every)
			mt := mountWith(t, f.path("small-packed"), best, []string{fault}, "--cache", "16MiB")
			check(t, "refused_registration", args{"mount": mt.dir, "expected": f.path("small"), "seconds": 5})
			if best.wantsPassthrough() {
				var stats struct {
					Failures uint64 `json:"register_failures"`
					Errors   uint64 `json:"errors"`
				}
				checkInto(t, &stats, "stats", args{"mount": mt.dir})
				if stats.Failures == 0 || stats.Errors != 0 {
					t.Errorf("register_failures %d, want some; errors %d, want none", stats.Failures, stats.Errors)
				}
			}
		})
	}
}

// TestPagesInAPipe is the trap of pages that outlive their file.
func TestPagesInAPipe(t *testing.T) {
	f := testFixtures(t)
	eachMode(t, func(t *testing.T, m mode) {
		mt := mount(t, f.path("small-packed"), m, "--cache", "8MiB")
		check(t, "pages_in_a_pipe", args{"mount": mt.dir, "expected": f.path("small"), "names": []string{"000.npy", "001.npy", "002.npy", "003.npy", "004.npy"}, "others": smallOthers()[1:], "budget": 8 << 20})
	})
}

// TestSignals interrupts a reader of files that are not decoded yet, again and
// again.
func TestSignals(t *testing.T) {
	f := testFixtures(t)
	eachMode(t, func(t *testing.T, m mode) {
		mt := mount(t, f.path("small-packed"), m)
		check(t, "signals", args{"mount": mt.dir, "expected": f.path("small")})
	})
}

// TestReplacedSource is the trap of pages that the kernel keeps.
func TestReplacedSource(t *testing.T) {
	f := testFixtures(t)
	eachMode(t, func(t *testing.T, m mode) {
		source := scratch(t)
		copyFile(t, f.path("replace-packed/000.l3"), filepath.Join(source, "picture.l3"))
		mt := mount(t, source, m)
		check(t, "replaced_source", args{"mount": mt.dir, "source": source, "versions": f.path("replace-packed"), "expected": f.path("replace")})
	})
}

// TestHeldWhileReplaced holds files open and mapped while the file that they
// were decoded from changes, and nothing of them is cached elsewhere.
func TestHeldWhileReplaced(t *testing.T) {
	f := testFixtures(t)
	eachMode(t, func(t *testing.T, m mode) {
		source := scratch(t)
		copyFile(t, f.path("replace-packed/000.l3"), filepath.Join(source, "picture.l3"))
		for _, name := range smallOthers() {
			packed := strings.TrimSuffix(name, ".npy") + ".l3"
			copyFile(t, f.path("small-packed/"+packed), filepath.Join(source, packed))
		}
		mt := mount(t, source, m, "--cache", "8MiB")
		check(t, "held_while_replaced", args{"mount": mt.dir, "source": source, "versions": f.path("replace-packed"), "expected": f.path("replace"), "others": smallOthers()})
	})
}

// TestPassthroughIsUsed makes sure that the ways of serving differ at all.
func TestPassthroughIsUsed(t *testing.T) {
	f := testFixtures(t)
	eachMode(t, func(t *testing.T, m mode) {
		mt := mount(t, f.packed, m)
		var stats struct {
			Passthrough any `json:"passthrough"`
		}
		checkInto(t, &stats, "stats", args{"mount": mt.dir})
		reason, isReason := stats.Passthrough.(string)
		if m.wantsPassthrough() && stats.Passthrough != true {
			t.Errorf("passthrough is %v as root on Linux 6.9 or later", stats.Passthrough)
		}
		if !m.wantsPassthrough() && (!isReason || reason == "") {
			t.Errorf("passthrough is %v, want the reason why not", stats.Passthrough)
		}
	})
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, data, 0o644); err != nil {
		t.Fatal(err)
	}
}
