package gpudecode

import "time"

// job is a request that waits or has waited.
type job struct {
	request *Request  // not changed
	queued  time.Time // not changed

	inQueue    bool // these three under the lock of the Decoder
	prev, next *job

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

// remove takes j out and reports whether it was in.
func (q *queue) remove(j *job) bool {
	if !j.inQueue {
		return false
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
	return true
}
