package pack

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"slices"
)

// pngHeaderBytes is the length of a PNG's signature and IHDR chunk, behind
// which an iCCP chunk may stand (PNG specification, 11.3.2.3 and 5.6).
const pngHeaderBytes = 8 + 12 + 13

// withColourProfile returns a PNG with the ICC profile in an iCCP chunk; an
// empty profile adds none.
func withColourProfile(png, profile []byte) ([]byte, error) {
	if len(profile) == 0 {
		return png, nil
	}
	if len(png) < pngHeaderBytes {
		return nil, errors.New("the PNG has no header")
	}
	var data bytes.Buffer
	data.WriteString("ICC profile\x00\x00") // the profile's name; zlib compression
	z := zlib.NewWriter(&data)
	if _, err := z.Write(profile); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	chunk := binary.BigEndian.AppendUint32(nil, uint32(data.Len()))
	chunk = append(chunk, "iCCP"...)
	chunk = append(chunk, data.Bytes()...)
	chunk = binary.BigEndian.AppendUint32(chunk, crc32.ChecksumIEEE(chunk[4:]))
	return slices.Insert(png, pngHeaderBytes, chunk...), nil
}
