package tensor

import "encoding/binary"

// The loops of this file move bytes eight at a time in a word, as far as whole
// words can be read and written, and one by one after that.

// pick fills dst with every stride-th byte of src, from the first on. src must
// hold the last of them and may end with it.
func pick(dst, src []byte, stride int) {
	done := 0
	switch stride {
	case 1:
		done = copy(dst, src)
	case 2:
		done = pick2(dst, src)
	case 4:
		done = pick4(dst, src)
	}
	for i := done; i < len(dst); i++ {
		dst[i] = src[i*stride]
	}
}

// pick2 and pick4 do the greater part of pick and return how many bytes
// that was.
func pick2(dst, src []byte) (done int) {
	for ; len(dst) >= 8 && len(src) >= 16; done += 8 {
		s := (*[16]byte)(src)
		low := close2(binary.LittleEndian.Uint64(s[0:]))
		high := close2(binary.LittleEndian.Uint64(s[8:]))
		binary.LittleEndian.PutUint64(dst, low|high<<32)
		dst, src = dst[8:], src[16:]
	}
	return done
}

func pick4(dst, src []byte) (done int) {
	for ; len(dst) >= 8 && len(src) >= 32; done += 8 {
		s := (*[32]byte)(src)
		a := close4(binary.LittleEndian.Uint64(s[0:]))
		b := close4(binary.LittleEndian.Uint64(s[8:]))
		c := close4(binary.LittleEndian.Uint64(s[16:]))
		d := close4(binary.LittleEndian.Uint64(s[24:]))
		binary.LittleEndian.PutUint64(dst, a|b<<16|c<<32|d<<48)
		dst, src = dst[8:], src[32:]
	}
	return done
}

// close2 returns bytes 0, 2, 4 and 6 of v side by side.
func close2(v uint64) uint64 {
	v &= 0x00ff00ff00ff00ff
	v = (v | v>>8) & 0x0000ffff0000ffff
	return (v | v>>16) & 0xffffffff
}

// close4 returns bytes 0 and 4 of v side by side.
func close4(v uint64) uint64 {
	v &= 0x000000ff000000ff
	return (v | v>>24) & 0xffff
}

// pick16 is pick for samples of two bytes; the stride is in bytes.
func pick16(dst, src []byte, stride int) {
	for i, from := 0, 0; i+2 <= len(dst); i, from = i+2, from+stride {
		d, s := dst[i:i+2:i+2], src[from:from+2:from+2]
		d[0], d[1] = s[0], s[1]
	}
}

// planes3 writes bytes 0, 3, 6 … of src to a, 1, 4, 7 … to b and the others to
// c, which are of one length.
func planes3(a, b, c, src []byte) {
	for len(a) >= 8 && len(b) >= 8 && len(c) >= 8 && len(src) >= 28 {
		s := (*[28]byte)(src)
		binary.LittleEndian.PutUint64(a, close3(s[0:])|close3(s[9:])<<24|close3(s[18:])<<48) // the 9th byte falls off
		binary.LittleEndian.PutUint64(b, close3(s[1:])|close3(s[10:])<<24|close3(s[19:])<<48)
		binary.LittleEndian.PutUint64(c, close3(s[2:])|close3(s[11:])<<24|close3(s[20:])<<48)
		a, b, c, src = a[8:], b[8:], c[8:], src[24:]
	}
	for i := range a {
		a[i], b[i], c[i] = src[3*i], src[3*i+1], src[3*i+2]
	}
}

// close3 returns bytes 0, 3 and 6 of p side by side. The product has them in
// its upper three bytes; what else is in it lies apart and below.
func close3(p []byte) uint64 {
	return binary.LittleEndian.Uint64(p) & 0x00ff0000ff0000ff * (1<<40 | 1<<24 | 1<<8) >> 40
}

// spread3 writes each byte of src three times.
func spread3(dst, src []byte) {
	for len(dst) >= 16 && len(src) >= 4 {
		d := (*[16]byte)(dst)
		v := uint64(binary.LittleEndian.Uint32(src))
		apart := v&0xff | v&0xff00<<16 | v&0xff0000<<32
		binary.LittleEndian.PutUint64(d[0:], apart*0x010101)
		binary.LittleEndian.PutUint64(d[8:], v>>16&0xff|v>>24*0x01010100)
		dst, src = dst[12:], src[4:]
	}
	for i, v := range src {
		dst[3*i], dst[3*i+1], dst[3*i+2] = v, v, v
	}
}

// drop4th writes src without each fourth byte.
func drop4th(dst, src []byte) {
	for len(dst) >= 8 && len(src) >= 8 {
		v := binary.LittleEndian.Uint64(src)
		binary.LittleEndian.PutUint64(dst, v&0xffffff|v>>8&0xffffff000000)
		dst, src = dst[6:], src[8:]
	}
	for i := range len(src) / 4 {
		copy(dst[3*i:3*i+3], src[4*i:])
	}
}

// swapBytes writes src with each pair of bytes turned round. Both may be the
// same memory.
func swapBytes(dst, src []byte) {
	const low = 0x00ff00ff00ff00ff
	for len(dst) >= 8 && len(src) >= 8 {
		v := binary.LittleEndian.Uint64(src)
		binary.LittleEndian.PutUint64(dst, v>>8&low|v&low<<8)
		dst, src = dst[8:], src[8:]
	}
	for i := 0; i+1 < len(src); i += 2 {
		dst[i], dst[i+1] = src[i+1], src[i]
	}
}
