// Package shard lays out tar files that are made while they are read.
//
// A [Plan] says where in a shard each image and its label stand, and writes the
// headers: everything but the bytes of the images, which it asks for when they
// are read. So the size of a shard is known before anything is decoded, and any
// part of it can be read by itself.
//
// What it promises: the bytes of a shard are a function of what the samples say
// of themselves and of their images; they are a tar file as POSIX.1-1988 (USTAR)
// has it, which ends after its two blocks of zeros. A plan takes 8 bytes a sample.
//
// It knows neither files nor datasets. Headers are written here and not by
// archive/tar, which writes a file from its beginning to its end: here they are
// written one at a time, at any place, into the reader's memory. That they are the
// same bytes is tested.
package shard

import (
	"errors"
	"fmt"
	"sort"
)

const (
	blockBytes = 512
	endBytes   = 2 * blockBytes

	// MaxMemberBytes is the largest member that the headers can tell of: 11 octal
	// digits.
	MaxMemberBytes = 1<<33 - 1
)

// ErrTooLarge says that an image is larger than a member of a shard can be.
var ErrTooLarge = errors.New("too large for a member of a shard")

// Sample is what a shard says of a sample: KEY.SUFFIX, the image, and KEY.cls, its
// label. It has no slashes or dots in its key, by which readers group members.
type Sample struct {
	Key    uint64
	Suffix string // of the image's name, with its dot
	Bytes  int64  // of the image
	Label  int64
	// Labelled says that there is a label; else there is no such member.
	Labelled bool
}

// Plan is the layout of a shard.
type Plan struct {
	sample func(i int) Sample
	starts []int64 // of the samples, and of the end
}

// New lays out a shard of n samples. It asks for each of them, now and whenever
// it is read; what it is told must not change.
func New(n int, sample func(i int) Sample) (*Plan, error) {
	p := &Plan{sample: sample, starts: make([]int64, n+1)}
	at := int64(0)
	for i := range n {
		p.starts[i] = at
		s := sample(i)
		if s.Bytes < 0 || s.Bytes > MaxMemberBytes {
			return nil, fmt.Errorf("%w: %d bytes, the most are %d", ErrTooLarge, s.Bytes, int64(MaxMemberBytes))
		}
		at += s.length()
	}
	p.starts[n] = at
	return p, nil
}

// length is what a sample takes in a shard.
func (s Sample) length() int64 {
	n := blockBytes + padded(s.Bytes)
	if s.Labelled {
		n += 2 * blockBytes
	}
	return n
}

// Len returns the number of samples.
func (p *Plan) Len() int { return len(p.starts) - 1 }

// Size returns the length of the shard in bytes.
func (p *Plan) Size() int64 { return p.starts[p.Len()] + endBytes }

// Start returns where a sample's first header begins; a reader of tar files can
// begin there.
func (p *Plan) Start(i int) int64 { return p.starts[i] }

// Image returns where a sample's image begins and ends.
func (p *Plan) Image(i int) (from, to int64) {
	from = p.starts[i] + blockBytes
	return from, from + p.sample(i).Bytes
}

// Find returns the sample that has the byte at an offset, Len behind the last one.
func (p *Plan) Find(off int64) int {
	return sort.Search(p.Len(), func(i int) bool { return p.starts[i+1] > off })
}

// ReadAt fills dst with the bytes at off and returns how many there are: fewer at
// the end, none behind it. The images' bytes it asks for: image writes those of
// sample i at off of the image into all of dst. Its error ends the reading.
func (p *Plan) ReadAt(dst []byte, off int64, image func(i int, dst []byte, off int64) error) (int, error) {
	if off < 0 || off >= p.Size() {
		return 0, nil
	}
	dst = dst[:min(int64(len(dst)), p.Size()-off)]
	clear(dst) // padding and end are zeros
	end := off + int64(len(dst))
	for i := p.Find(off); i < p.Len() && p.starts[i] < end; i++ {
		s, at := p.sample(i), p.starts[i]
		overlap(dst, off, at, at+blockBytes, func(part []byte, skip int64) {
			h := s.imageHeader()
			copy(part, h[skip:])
		})
		at += blockBytes
		var err error
		overlap(dst, off, at, at+s.Bytes, func(part []byte, skip int64) { err = image(i, part, skip) })
		if err != nil {
			return 0, err
		}
		if !s.Labelled {
			continue
		}
		at += padded(s.Bytes)
		overlap(dst, off, at, at+blockBytes, func(part []byte, skip int64) {
			h := s.labelHeader()
			copy(part, h[skip:])
		})
		at += blockBytes
		overlap(dst, off, at, at+blockBytes, func(part []byte, skip int64) {
			text := s.labelBlock()
			copy(part, text[skip:])
		})
	}
	return len(dst), nil
}

// overlap calls f with the part of dst, which begins at off, that is between from
// and to, and with how far behind from that part begins.
func overlap(dst []byte, off, from, to int64, f func(part []byte, skip int64)) {
	a, b := max(from, off), min(to, off+int64(len(dst)))
	if a < b {
		f(dst[a-off:b-off], a-from)
	}
}

// padded rounds up to whole blocks.
func padded(n int64) int64 { return (n + blockBytes - 1) / blockBytes * blockBytes }
