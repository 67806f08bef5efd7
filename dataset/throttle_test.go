package dataset

import (
	"bytes"
	"context"
	"os"
	"sync"
	"testing"
	"time"
)

// A line is never faster than it is said to be, however many share it.
func TestThrottle(t *testing.T) {
	dir := t.TempDir()
	content := bytes.Repeat([]byte("0123456789"), 2000)
	must(t, os.WriteFile(dir+"/a", content, 0o644))
	const bytesPerSecond = 1_000_000
	store := Throttle(openLocal(t, dir), bytesPerSecond)
	start := time.Now()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			f, err := store.Open(context.Background(), "a")
			if err != nil {
				t.Error(err)
				return
			}
			defer f.Close()
			got := make([]byte, len(content))
			for off := 0; off < len(got); off += 1000 {
				if _, err := f.ReadAt(got[off:off+1000], int64(off)); err != nil {
					t.Error(err)
				}
			}
			if !bytes.Equal(got, content) {
				t.Error("other bytes")
			}
		})
	}
	wg.Wait()
	least := time.Duration(4*len(content)) * time.Second / bytesPerSecond
	if took := time.Since(start); took < least-maxLineCredit {
		t.Errorf("%d bytes came in %v, less than %v", 4*len(content), took, least)
	}
	if got := list(t, store, ""); got["a"] != Regular || store.String() != dir {
		t.Errorf("the store has %v", got)
	}
	// What is read of a line that says 0 comes, if slowly.
	if f := Throttle(store, 0).(*throttled); f.line.bytesPerSecond != 1 {
		t.Errorf("%v bytes a second", f.line.bytesPerSecond)
	}
}
