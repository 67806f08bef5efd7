package tensor

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/adler32"
	"hash/crc32"
	"math/rand/v2"

	"prismfs/raster"
)

// This file says, in the plainest words, what every form of an image is. The
// package is held to it.

// noise returns n bytes that are the same in every run.
func noise(n int64) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(b)
	return b
}

// array is what a reader sees: samples by row, column and channel.
type array struct {
	height, width, channels int
	bytes                   int // of a sample
	signed                  bool
	at                      func(y, x, c int) uint16
}

// referenceArray returns the samples that the form shows of an image.
func referenceArray(f Form, img raster.Image) array {
	size := img.DType.Size()
	at := func(y, x, c int) uint16 {
		i := ((y*img.Width+x)*img.Channels + c) * size
		if size == 1 {
			return uint16(img.Pix[i])
		}
		return uint16(img.Pix[i]) + uint16(img.Pix[i+1])<<8
	}
	a := array{img.Height, img.Width, img.Channels, size, img.DType == raster.Int16, at}
	grey := img.Channels == 1 || img.Color == raster.GreyAlpha
	switch {
	case f.RGB:
		a.channels, a.bytes = 3, 1
		a.at = func(y, x, c int) uint16 {
			if grey {
				c = 0
			}
			return at(y, x, c) >> (8 * (size - 1))
		}
	case f.Container == PPM && grey:
		a.channels = 1
	case f.Container == PPM:
		a.channels = 3
	}
	return a
}

// samples returns the samples as bytes.
func (a array) samples(planar bool, order binary.AppendByteOrder) []byte {
	var b []byte
	add := func(v uint16) {
		if a.bytes == 1 {
			b = append(b, byte(v))
		} else {
			b = order.AppendUint16(b, v)
		}
	}
	if planar {
		for c := range a.channels {
			for y := range a.height {
				for x := range a.width {
					add(a.at(y, x, c))
				}
			}
		}
		return b
	}
	for y := range a.height {
		for x := range a.width {
			for c := range a.channels {
				add(a.at(y, x, c))
			}
		}
	}
	return b
}

// shape returns the edges of the array, as Python prints a tuple.
func (a array) shape(planar bool) string {
	switch {
	case planar:
		return fmt.Sprintf("(%d, %d, %d)", a.channels, a.height, a.width)
	case a.channels == 1:
		return fmt.Sprintf("(%d, %d)", a.height, a.width)
	}
	return fmt.Sprintf("(%d, %d, %d)", a.height, a.width, a.channels)
}

// dtype returns NumPy's name of the samples.
func (a array) dtype() string {
	return map[bool]string{true: "<i2", false: map[int]string{1: "|u1", 2: "<u2"}[a.bytes]}[a.signed]
}

// referenceFile returns the file that the form is of the image.
func referenceFile(f Form, img raster.Image) []byte {
	a := referenceArray(f, img)
	switch f.Container {
	case NPY:
		text := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': %s, }", a.dtype(), a.shape(f.CHW))
		head := fmt.Sprintf("\x93NUMPY\x01\x00\x76\x00%-117s\n", text)
		return append([]byte(head), a.samples(f.CHW, binary.LittleEndian)...)
	case Raw:
		return a.samples(f.CHW, binary.LittleEndian)
	case PPM:
		magic := map[int]string{1: "P5", 3: "P6"}[a.channels]
		head := fmt.Sprintf("%s\n%d %d\n%d\n", magic, a.width, a.height, map[int]int{1: 255, 2: 65535}[a.bytes])
		return append([]byte(head), a.samples(false, binary.BigEndian)...)
	}
	return referencePNG(a)
}

func referencePNG(a array) []byte {
	var b []byte
	chunk := func(name string, data []byte) {
		b = binary.BigEndian.AppendUint32(b, uint32(len(data)))
		body := append([]byte(name), data...)
		b = append(b, body...)
		b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(body))
	}
	b = append(b, 0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n')
	header := binary.BigEndian.AppendUint32(nil, uint32(a.width))
	header = binary.BigEndian.AppendUint32(header, uint32(a.height))
	chunk("IHDR", append(header, byte(8*a.bytes), map[int]byte{1: 0, 2: 4, 3: 2, 4: 6}[a.channels], 0, 0, 0))

	var stream []byte
	row := a.width * a.channels * a.bytes
	for samples := a.samples(false, binary.BigEndian); len(samples) > 0; samples = samples[row:] {
		stream = append(append(stream, 0), samples[:row]...)
	}
	data, blocks, sum := []byte{0x78, 0x01}, 0, adler32.Checksum(stream)
	for len(stream) > 0 {
		n := min(len(stream), 65535)
		last := byte(0)
		if n == len(stream) {
			last = 1
		}
		data = append(data, last, byte(n), byte(n>>8), ^byte(n), ^byte(n>>8))
		data = append(data, stream[:n]...)
		stream = stream[n:]
		if blocks++; len(stream) == 0 {
			data = binary.BigEndian.AppendUint32(data, sum)
		}
		if blocks%32 == 0 || len(stream) == 0 {
			chunk("IDAT", data)
			data = nil
		}
	}
	chunk("IEND", nil)
	return b
}

// forms are all forms that are decoded.
func forms() (all []Form) {
	for bits := range 8 * int(containers) {
		f := Form{Container: Container(bits >> 3), CHW: bits&1 != 0, RGB: bits&2 != 0, Wide: bits&4 != 0}
		if f.Check() == nil && f.Decoded() {
			all = append(all, f)
		}
	}
	return all
}

// kinds are all shapes of images of one pixel.
func kinds() (all []raster.Shape) {
	for channels := 1; channels <= raster.MaxChannels; channels++ {
		for _, dtype := range []raster.DType{raster.Uint8, raster.Uint16, raster.Int16} {
			for _, color := range []raster.Color{raster.Other, raster.Color(channels)} {
				all = append(all, raster.Shape{Height: 1, Width: 1, Channels: channels, DType: dtype, Color: color})
			}
		}
	}
	return all
}

// render returns the file that the package makes of the image.
func render(f Form, img raster.Image) ([]byte, error) {
	l, err := f.Layout(img.Shape)
	if err != nil {
		return nil, err
	}
	dst := bytes.Repeat([]byte{0xa5}, int(l.Size())) // what memory that is used again may hold
	return dst, l.Render(dst, img.Pix)
}
