package gpudecode

import "container/list"

// turns is a queue in which readers take turns, so that one who asks for
// thousands of images does not keep another waiting who asks for one. What one
// reader asks for comes in the order in which it asked.
type turns struct {
	readers map[uint64]*readerQueue
	order   list.List // of *readerQueue: whose turn is next comes first
	len     int
}

// A readerQueue is what one reader waits for. It exists while that is something.
type readerQueue struct {
	reader uint64
	jobs   list.List // of *deviceJob, the oldest first
	order  *list.Element
}

// A turn is a job's place in the queue.
type turn struct {
	of   *turns // nil: in none
	from *readerQueue
	at   *list.Element
}

func (t *turns) queueOf(reader uint64) *readerQueue {
	if q := t.readers[reader]; q != nil {
		return q
	}
	if t.readers == nil {
		t.readers = make(map[uint64]*readerQueue)
	}
	q := &readerQueue{reader: reader}
	q.order = t.order.PushBack(q)
	t.readers[reader] = q
	return q
}

// push appends a job.
func (t *turns) push(j *deviceJob) {
	q := t.queueOf(j.request.Reader)
	j.place = turn{of: t, from: q, at: q.jobs.PushBack(j)}
	t.len++
}

// putBack makes a job that was taken its reader's next one, and the reader the
// next one of all.
func (t *turns) putBack(j *deviceJob) {
	q := t.queueOf(j.request.Reader)
	t.order.MoveToFront(q.order)
	j.place = turn{of: t, from: q, at: q.jobs.PushFront(j)}
	t.len++
}

// first returns the job whose turn it is, nil if there is none.
func (t *turns) first() *deviceJob {
	if t.len == 0 {
		return nil
	}
	q := t.order.Front().Value.(*readerQueue)
	return q.jobs.Front().Value.(*deviceJob)
}

// pop takes the job whose turn it is; there must be one.
func (t *turns) pop() *deviceJob {
	j := t.first()
	t.order.MoveToBack(j.place.from.order)
	j.withdraw()
	return j
}

// withdraw takes a job out of the queue that it is in, and reports whether it was
// in one.
func (j *deviceJob) withdraw() bool {
	t, q := j.place.of, j.place.from
	if t == nil {
		return false
	}
	q.jobs.Remove(j.place.at)
	if q.jobs.Len() == 0 {
		t.order.Remove(q.order)
		delete(t.readers, q.reader)
	}
	t.len--
	j.place = turn{}
	return true
}
