package shard

import "strconv"

// keyDigits is the least number of digits of a key: enough that the keys of an
// epoch sort by their bytes.
const keyDigits = 9

// labelSuffix is what WebDataset calls the member that holds a class.
const labelSuffix = ".cls"

// Where the fields of a USTAR header stand.
const (
	nameAt     = 0
	modeAt     = 100
	uidAt      = 108
	gidAt      = 116
	sizeAt     = 124
	mtimeAt    = 136
	checksumAt = 148
	typeAt     = 156
	magicAt    = 257
	majorAt    = 329
	minorAt    = 337
)

// template is the header of a member, but for its name, size and checksum: a file
// of root's that all may read, of the beginning of 1970. Nothing of the source's
// goes into it, so that copies of a dataset give the same shards.
var template = func() (h [blockBytes]byte) {
	for at, text := range map[int]string{
		modeAt: "0000444", uidAt: "0000000", gidAt: "0000000", mtimeAt: "00000000000",
		typeAt: "0", magicAt: "ustar\x0000", majorAt: "0000000", minorAt: "0000000",
	} {
		copy(h[at:], text)
	}
	return h
}()

// KeyText writes the key of a sample as its members have it.
func KeyText(key uint64) string { return string(appendKey(nil, key)) }

func appendKey(b []byte, key uint64) []byte {
	var digits [20]byte
	text := strconv.AppendUint(digits[:0], key, 10)
	for range keyDigits - len(text) {
		b = append(b, '0')
	}
	return append(b, text...)
}

func (s Sample) imageHeader() [blockBytes]byte { return header(s.Key, s.Suffix, s.Bytes) }

func (s Sample) labelHeader() [blockBytes]byte {
	var digits [20]byte
	return header(s.Key, labelSuffix, int64(len(strconv.AppendInt(digits[:0], s.Label, 10))))
}

// labelBlock is what the member of the label holds, and its padding.
func (s Sample) labelBlock() (b [blockBytes]byte) {
	strconv.AppendInt(b[:0], s.Label, 10)
	return b
}

// header writes the header of a member of less than MaxMemberBytes.
func header(key uint64, suffix string, size int64) [blockBytes]byte {
	h := template
	name := appendKey(h[nameAt:nameAt:modeAt], key)
	copy(h[nameAt+len(name):modeAt], suffix)
	putOctal(h[sizeAt:mtimeAt-1], uint64(size))
	sum := uint64(8 * ' ') // the checksum itself counts as spaces
	for _, c := range h {
		sum += uint64(c)
	}
	putOctal(h[checksumAt:checksumAt+6], sum)
	h[checksumAt+7] = ' '
	return h
}

// putOctal writes a number with leading zeros into all of b.
func putOctal(b []byte, n uint64) {
	for i := len(b) - 1; i >= 0; i-- {
		b[i] = '0' + byte(n&7)
		n >>= 3
	}
}
