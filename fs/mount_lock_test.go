package fs

import (
	"errors"
	iofs "io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// locksIn lists the locks in the folder of sockets of this test.
func locksIn(t *testing.T, run string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(run, "prismfs", "*"+lockSuffix))
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// TestLocksOfKilledMountsAreSwept: what a mount that was killed leaves goes with the
// next one, and the lock of a mount that is being made stays.
func TestLocksOfKilledMountsAreSwept(t *testing.T) {
	run := t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", run)
	places := t.TempDir()
	unlock, err := lockMountpoint(filepath.Join(places, "being-made"))
	if err != nil {
		t.Fatal(err)
	}
	held := locksIn(t, run)
	if len(held) != 1 {
		t.Fatalf("%d locks of one mount that is being made", len(held))
	}
	killed := filepath.Join(run, "prismfs", lockName(filepath.Join(places, "killed")))
	if err := os.WriteFile(killed, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	other, err := lockMountpoint(filepath.Join(places, "other"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(killed); !errors.Is(err, iofs.ErrNotExist) {
		t.Errorf("the lock of a killed mount: %v, want that it is gone", err)
	}
	if _, err := os.Lstat(held[0]); err != nil {
		t.Errorf("the lock of a mount that is being made: %v", err)
	}
	other()
	unlock()
	if left := locksIn(t, run); len(left) != 0 {
		t.Errorf("%q are left", left)
	}
}

// TestSweepingKeepsMountsApart: of those who lock one place there is one at a time, while
// others sweep the lock away wherever they find that nobody has it.
func TestSweepingKeepsMountsApart(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, lockName("/mnt"))
	const lockers, sweepers, rounds = 3, 2, 1500
	end := time.Now().Add(2 * time.Second) // on one processor few rounds take long
	var inside, taken atomic.Int32
	var locked, all sync.WaitGroup
	done := make(chan struct{})
	for range lockers {
		locked.Go(func() {
			for n := 0; n < rounds && time.Now().Before(end); {
				lock, err := tryLock(name, os.O_CREATE)
				if errors.Is(err, unix.EWOULDBLOCK) {
					runtime.Gosched()
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				n++
				taken.Add(1)
				if others := inside.Add(1) - 1; others != 0 {
					t.Errorf("%d others have the lock", others)
				}
				runtime.Gosched()
				inside.Add(-1)
				lock.Close() // as of a mount that is killed
			}
		})
	}
	for range sweepers {
		all.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					sweepLocks(dir, "")
				}
			}
		})
	}
	locked.Wait()
	close(done)
	all.Wait()
	if taken.Load() < 2*lockers {
		t.Errorf("the lock was taken %d times: too few to show anything", taken.Load())
	}
	sweepLocks(dir, "")
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("%d files are left (%v)", len(left), err)
	}
}
