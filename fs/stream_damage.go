package fs

import (
	"errors"
	"fmt"
	"sync"
	"syscall"

	"prismfs/dataset"
	"prismfs/gpudecode"
	"prismfs/internal/jpeg"
	"prismfs/l3"
	"prismfs/pcr"
	"prismfs/tensor"
)

// rawContainer is the form that has nothing but samples.
const rawContainer = tensor.Raw

// damages are the errors that say that an image is not what it should be. They are
// the same whenever it is read. Everything else, such as a store that fails, may be
// over the next time.
var damages = []error{
	l3.ErrNotL3, l3.ErrTruncated, l3.ErrCorrupt, l3.ErrUnsupported, l3.ErrTooLarge,
	pcr.ErrDamaged, pcr.ErrUnsupported, pcr.ErrTooLarge, pcr.ErrExtension, pcr.ErrImage,
	jpeg.ErrDamaged, jpeg.ErrTruncated, jpeg.ErrUnsupported, jpeg.ErrTooLarge, gpudecode.ErrShape,
}

// isDamage reports whether an error is one of the image itself.
func isDamage(err error) bool {
	var errno syscall.Errno
	if errors.As(err, &errno) || errors.Is(err, dataset.ErrChanged) {
		return false
	}
	for _, d := range damages {
		if errors.Is(err, d) {
			return true
		}
	}
	return false
}

// damageText writes what stands in the place of a damaged image: a line that says
// so, and zeros. It depends on the image's path alone, since shards are the same
// for every reader, and is no image of any form.
func damageText(dst []byte, at int64, path string) {
	text := fmt.Sprintf("prismfs: %s is damaged and cannot be decoded; run prismfs verify\n", tableEscapes.Replace(path))
	clear(dst)
	if at < int64(len(text)) {
		copy(dst, text[at:])
	}
}

// verdicts remember of which items of a shard pixels were read, and of which the
// text of their damage: one of them for each, so that no reader, nor the pages that
// the kernel keeps, ever has an image with zeros in it.
type verdicts struct {
	mu      sync.Mutex
	good    []uint64 // bits
	damaged map[int]struct{}
}

func (v *verdicts) isDamaged(i int) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	_, damaged := v.damaged[i]
	return damaged
}

// pass says that pixels of item i of n are read, and reports false where it was
// found damaged before.
func (v *verdicts) pass(i, n int) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if _, damaged := v.damaged[i]; damaged {
		return false
	}
	if v.good == nil {
		v.good = make([]uint64, (n+63)/64)
	}
	v.good[i/64] |= 1 << (i % 64)
	return true
}

// condemn says that item i is damaged, and reports false where pixels of it were
// read before.
func (v *verdicts) condemn(i int) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.good != nil && v.good[i/64]>>(i%64)&1 == 1 {
		return false
	}
	if v.damaged == nil {
		v.damaged = make(map[int]struct{})
	}
	v.damaged[i] = struct{}{}
	return true
}
