package tensor

import (
	"encoding/binary"
	"hash/crc32"

	"prismfs/raster"
)

// A PNG file here is the signature, IHDR, one or more IDAT and IEND (W3C, PNG
// specification). Its zlib stream (RFC 1950) is made of stored blocks (RFC
// 1951, 3.2.4) as long as they can be, whatever the rows; before each row
// stands a 0 for filter type none.
const (
	pngSignature  = "\x89PNG\r\n\x1a\n"
	pngChunkBytes = 12 // length, type and checksum around the data of a chunk
	pngIHDRBytes  = 13
	pngIEND       = "\x00\x00\x00\x00IEND\xaeB`\x82"

	zlibHeader       = "\x78\x01" // deflate, window of 32 KiB, fastest
	zlibTrailerBytes = 4          // Adler-32

	storedHeaderBytes = 5
	storedBytesMax    = 65535

	// blocksPerIDAT bounds a chunk to 2 MiB: enough for most photographs to
	// be in one, and little for a reader that takes a chunk at a time.
	blocksPerIDAT = 32
)

// pngBytes returns the size of a PNG file with n bytes of samples and filter
// types, n at least 1.
func pngBytes(n uint64) uint64 {
	blocks := (n-1)/storedBytesMax + 1
	chunks := (blocks-1)/blocksPerIDAT + 1
	return uint64(len(pngSignature)) + pngChunkBytes + pngIHDRBytes +
		chunks*pngChunkBytes + uint64(len(zlibHeader)) + blocks*storedHeaderBytes + n + zlibTrailerBytes +
		uint64(len(pngIEND))
}

// renderPNG writes the file. Samples that change are first put at the end of
// dst, where those that InPlace speaks of lie already. From there they move
// towards its start, and none is overwritten before it is read: what the file
// has in front of a sample is never more than all it has beside the samples,
// which is how far from its start they begin.
func (l Layout) renderPNG(dst, pix []byte) {
	samples := pix
	if !l.pixel.identity() {
		samples = dst[len(dst)-int(l.out.Bytes()):]
		l.pixel.apply(samples, pix)
	}
	b := append(dst[:0], pngSignature...)
	b = l.appendIHDR(b)
	b = appendIDATs(b, rows{samples: samples, bytes: l.out.RowBytes()}, l.out.Height)
	copy(dst[len(b):], pngIEND)
}

// appendIHDR appends the chunk that gives size, depth and kind of colour.
func (l Layout) appendIHDR(b []byte) []byte {
	start := len(b)
	b = binary.BigEndian.AppendUint32(b, pngIHDRBytes)
	b = append(b, "IHDR"...)
	b = binary.BigEndian.AppendUint32(b, uint32(l.out.Width))
	b = binary.BigEndian.AppendUint32(b, uint32(l.out.Height))
	b = append(b, byte(8*l.out.DType.Size()), pngColourType(l.out.Channels), 0, 0, 0) // deflate, filter method, not interlaced
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b[start+4:]))
}

// pngColourType returns PNG's number of the colour that has so many channels.
func pngColourType(channels int) byte {
	return [...]byte{raster.Grey: 0, raster.GreyAlpha: 4, raster.RGB: 2, raster.RGBA: 6}[channels]
}

// appendIDATs appends the chunks that hold the rows. Each block is put into
// the checksums as soon as it is written, while the cache still has it.
func appendIDATs(b []byte, src rows, height int) []byte {
	left := len(src.samples) + height
	sum := uint32(1)
	for first := true; left > 0; first = false {
		start := len(b)
		b = append(b, "\x00\x00\x00\x00IDAT"...)
		crc := crc32.ChecksumIEEE(b[start+4:])
		if first {
			b = append(b, zlibHeader...)
			crc = crc32.Update(crc, crc32.IEEETable, b[len(b)-len(zlibHeader):])
		}
		for range blocksPerIDAT {
			n := min(left, storedBytesMax)
			if n == 0 {
				break
			}
			left -= n
			head := len(b)
			b = appendStoredHeader(b, n, left == 0)
			body := len(b)
			b = b[:body+n]
			src.read(b[body:])
			sum = adler32Update(sum, b[body:])
			if left == 0 {
				b = binary.BigEndian.AppendUint32(b, sum)
			}
			crc = crc32.Update(crc, crc32.IEEETable, b[head:])
		}
		binary.BigEndian.PutUint32(b[start:], uint32(len(b)-start-8))
		b = binary.BigEndian.AppendUint32(b, crc)
	}
	return b
}

// appendStoredHeader appends what precedes a stored block of n bytes: three
// bits (last or not, type 0) filled up to a byte, the length and its complement.
func appendStoredHeader(b []byte, n int, last bool) []byte {
	var final byte
	if last {
		final = 1
	}
	b = append(b, final)
	b = binary.LittleEndian.AppendUint16(b, uint16(n))
	return binary.LittleEndian.AppendUint16(b, ^uint16(n))
}

// rows reads the bytes that PNG compresses: each row with a filter type, 0 for
// none, before it.
type rows struct {
	samples []byte // not yet read
	bytes   int    // of a row
	left    int    // bytes of the current row not yet read; 0: a filter type comes
}

// read fills p, which must not be longer than what is left.
func (r *rows) read(p []byte) {
	for len(p) > 0 {
		if r.left == 0 {
			p[0] = 0
			p, r.left = p[1:], r.bytes
			continue
		}
		n := copy(p, r.samples[:r.left])
		p, r.samples, r.left = p[n:], r.samples[n:], r.left-n
	}
}
