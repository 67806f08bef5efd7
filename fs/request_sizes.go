package fs

import "math/bits"

const (
	// maxRequestBytes is the largest read that the kernel sends. Larger ones
	// cost fewer round trips; 1 MiB is what kernels take without a sysctl.
	maxRequestBytes = 1 << 20
	// minRequestBytes is what the kernel sends where little memory is free: its own
	// read-ahead is no larger.
	minRequestBytes = 128 << 10
	// maxInflightBytes bounds go-fuse's buffers for requests that come in.
	maxInflightBytes = 64 << 20
	// requestShare: as many reads as the kernel sends ahead of readers, maxBackground,
	// take at most 1/8 of the memory that is free when the mount is made.
	requestShare = 8
)

// requestSizes say how large requests are. go-fuse has a buffer for each that is
// being answered, of the size that was asked for.
type requestSizes struct {
	request  int // the largest read, a power of two
	inFlight int // of all requests that come in
}

// requestSizesFor takes smaller requests where little memory is free, as in a small
// container.
func requestSizesFor(free int64) requestSizes {
	share := max(free, 0) / requestShare
	request := min(max(share/maxBackground, minRequestBytes), maxRequestBytes)
	return requestSizes{
		request:  1 << (bits.Len64(uint64(request)) - 1),
		inFlight: int(min(max(share, 4*minRequestBytes), maxInflightBytes)),
	}
}
