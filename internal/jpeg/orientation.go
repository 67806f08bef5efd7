package jpeg

import (
	"bytes"
	"encoding/binary"
)

// exifOrientation returns the orientation that the EXIF data of a JPEG gives:
// 1 is as stored, 2 to 8 are turned or mirrored, 0 is said for none. It looks
// at the segments before the first scan.
func exifOrientation(data []byte) int {
	const soi, sos, eoi, app1 = 0xd8, 0xda, 0xd9, 0xe1
	exif := []byte("Exif\x00\x00")
	if len(data) < 2 || data[0] != 0xff || data[1] != soi {
		return 0
	}
	for at := 2; at+4 <= len(data) && data[at] == 0xff; {
		code := data[at+1]
		if code == 0xff { // fill
			at++
			continue
		}
		n := int(binary.BigEndian.Uint16(data[at+2:]))
		if code == sos || code == eoi || n < 2 || at+2+n > len(data) {
			return 0
		}
		body := data[at+4 : at+2+n]
		if tiff, ok := bytes.CutPrefix(body, exif); ok && code == app1 {
			if o := tiffOrientation(tiff); o != 0 {
				return o
			}
		}
		at += 2 + n
	}
	return 0
}

// tiffOrientation looks for the orientation in the first folder of a TIFF file.
func tiffOrientation(b []byte) int {
	const (
		entryBytes  = 12
		orientation = 0x0112
		short       = 3
	)
	var order binary.ByteOrder
	switch {
	case bytes.HasPrefix(b, []byte("II*\x00")):
		order = binary.LittleEndian
	case bytes.HasPrefix(b, []byte("MM\x00*")):
		order = binary.BigEndian
	default:
		return 0
	}
	if len(b) < 8 {
		return 0
	}
	at := uint64(order.Uint32(b[4:]))
	if at+2 > uint64(len(b)) {
		return 0
	}
	entries := b[at+2:]
	for range order.Uint16(b[at:]) {
		if len(entries) < entryBytes {
			return 0
		}
		if order.Uint16(entries) == orientation && order.Uint16(entries[2:]) == short {
			if o := int(order.Uint16(entries[8:])); o >= 1 && o <= 8 {
				return o
			}
			return 0
		}
		entries = entries[entryBytes:]
	}
	return 0
}
