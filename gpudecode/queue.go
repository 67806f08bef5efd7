package gpudecode

import "time"

// state is how far a request has come.
type state uint8

const (
	waiting state = iota // in the queue or in a worker's batch
	running              // being decoded, or done
	dropped              // its context ended while it waited
)

// job is a request on its way. All but what the comments except is guarded by
// the lock of the Decoder.
type job struct {
	request *Request  // not changed
	queued  time.Time // not changed

	state      state
	inQueue    bool
	prev, next *job // in the queue

	err  error         // written before done is closed, read after it
	done chan struct{} // closed when the request has been decoded or has failed
}

// queue is a list of jobs, first in, first out, from which any can be taken.
type queue struct {
	first, last *job
	len         int
}

func (q *queue) push(j *job) {
	j.prev, j.inQueue = q.last, true
	if q.last == nil {
		q.first = j
	} else {
		q.last.next = j
	}
	q.last = j
	q.len++
}

// pop takes the oldest job; there must be one.
func (q *queue) pop() *job {
	j := q.first
	q.remove(j)
	return j
}

// remove takes j out, if it is in.
func (q *queue) remove(j *job) {
	if !j.inQueue {
		return
	}
	if j.prev == nil {
		q.first = j.next
	} else {
		j.prev.next = j.next
	}
	if j.next == nil {
		q.last = j.prev
	} else {
		j.next.prev = j.prev
	}
	j.prev, j.next, j.inQueue = nil, nil, false
	q.len--
}
