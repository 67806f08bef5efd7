package l3

// The channels of a patch are coded as planes. With three or four channels the
// first plane is channel 1 (green), then come channel 0, channel 2 and channel
// 3; with fewer they keep their order. Plane 1 is stored as its difference to a
// share of plane 0, plane 2 as its difference to shares of both. Plane 3
// (alpha) stands alone. Each patch chooses its shares.

// planeChannels gives the channel of each plane, by the number of channels.
var planeChannels = [...][]int{
	1: {0},
	2: {0, 1},
	3: {1, 0, 2},
	4: {1, 0, 2, 3},
}

// shares are how much of planes 0 and 1 is subtracted, in eighths. They sum to
// at most 8.
type shares struct {
	first, second uint64
}

// The transform byte of a patch: bits 0 and 1 choose from plane1Shares, bits 2
// to 4 from plane2Shares; planes that do not exist have 0.
var (
	plane1Shares = [4]shares{{8, 0}, {0, 0}, {4, 0}, {6, 0}}
	plane2Shares = [8]shares{{8, 0}, {0, 0}, {4, 4}, {4, 0}, {6, 0}, {2, 6}, {0, 8}, {6, 2}}
)

// transformLimit is one more than the largest transform byte of an image with
// this many channels.
func transformLimit(channels int) int {
	return [...]int{1: 1, 2: 4, 3: 32, 4: 32}[channels]
}

// planeShares returns the shares of a plane under a patch's transform byte.
func planeShares(transform uint8, plane int) shares {
	switch plane {
	case 1:
		return plane1Shares[transform&3]
	case 2:
		return plane2Shares[transform>>2&7]
	}
	return shares{}
}

// predicted returns what is subtracted from the lanes of a plane, given those
// of planes 0 and 1: (first × x + second × y) >> 3, less half a lane's range
// for a full share. Without that offset the differences would lie around zero,
// and averages of small and just negative ones would go wrong.
func (s shares) predicted(x, y uint64, d *depth) uint64 {
	alternate, bits := d.alternate, d.bits&63
	even := (x&alternate)*s.first + (y&alternate)*s.second
	odd := (x>>bits&alternate)*s.first + (y>>bits&alternate)*s.second
	sum := even>>3&alternate | (odd>>3&alternate)<<bits
	return sub(sum, d.low*((s.first+s.second)<<(bits-4)), d.high)
}

// decorrelate sets the first words of dst to the plane src as it is coded.
func (s shares) decorrelate(dst, src, x, y *laneRow, words int, d *depth) {
	for k := range dst[:words] {
		dst[k] = sub(src[k], s.predicted(x[k], y[k], d), d.high)
	}
}

// correlate is the inverse of decorrelate; dst may be src.
func (s shares) correlate(dst, src, x, y *laneRow, words int, d *depth) {
	if s == (shares{8, 0}) { // by far the most frequent
		for k := range dst[:words] {
			dst[k] = add(src[k], x[k]^d.high, d.high)
		}
		return
	}
	for k := range dst[:words] {
		dst[k] = add(src[k], s.predicted(x[k], y[k], d), d.high)
	}
}
