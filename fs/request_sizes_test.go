package fs

import (
	"math"
	"testing"
)

func TestRequestSizesFitIntoWhatIsFree(t *testing.T) {
	for _, c := range []struct {
		free int64
		want requestSizes
	}{
		{math.MaxInt64, requestSizes{1 << 20, 64 << 20}},
		{512 << 20, requestSizes{1 << 20, 64 << 20}},
		{511 << 20, requestSizes{512 << 10, 511 << 17}},
		{256 << 20, requestSizes{512 << 10, 32 << 20}},
		{100 << 20, requestSizes{128 << 10, 100 << 17}},
		{1 << 20, requestSizes{128 << 10, 512 << 10}},
		{0, requestSizes{128 << 10, 512 << 10}},
		{-1, requestSizes{128 << 10, 512 << 10}},
	} {
		if got := requestSizesFor(c.free); got != c.want {
			t.Errorf("%d free: %+v, want %+v", c.free, got, c.want)
		}
	}
}
