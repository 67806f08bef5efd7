package order

import "time"

// stream is a reader that goes through a folder, as far as one can see: opens of
// which each is of the name after the last one's.
type stream struct {
	order  int         // orders, while it can be both
	next   [orders]int // place of the next open
	run    int         // opens in order, the first one included
	to     int         // in its order, the first place that nothing was begun for
	seen   time.Time
	awake  bool // the reader has missed something since there was nothing to do
	idle   int  // images in a row that were there already
	useful int  // images that were made for it and opened

	continued bool // the folder after its own has been looked for
	expected  bool // a reader who has not come yet
}

// ahead is how many places are between the reader and what is begun next.
func (s *stream) ahead() int { return s.to - s.next[s.order] }

// image is one that is made, or being made, for a stream.
type image struct {
	stream *stream
	fate   fate
}

type fate uint8

const (
	unread fate = iota
	useful
	wasted
)

// follows reports whether an open of an image is the next one of s, and in which
// order. A reader may skip what was begun for it.
func (s *stream) follows(f *folder, number int32) (order, place int, ok bool) {
	for _, o := range [...]int{sorted, listed} {
		if s.order != orders && s.order != o {
			continue
		}
		place := f.place(number, o)
		if place == s.next[o] || s.order == o && place > s.next[o] && place < s.to {
			return o, place, true
		}
	}
	return 0, 0, false
}

// advance moves s behind an image.
func (s *stream) advance(order, place int) {
	s.order = order
	s.next[order] = place + 1
	s.to = max(s.to, place+1)
	s.run++
}

// newStream returns the stream of which an open is the first.
func newStream(f *folder, number int32) *stream {
	s := &stream{order: orders, run: 1}
	for o := range s.next {
		s.next[o] = f.place(number, o) + 1
	}
	return s
}
