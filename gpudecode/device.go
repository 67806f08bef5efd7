package gpudecode

import (
	"time"
	"unsafe"

	"prismfs/gpudecode/kernels"
	"prismfs/gpudecode/nvml"
	"prismfs/l3"
)

// A device decodes the patches of many images at a time.
type device interface {
	// String says what it is, for people.
	String() string

	// takes reports whether it decodes a coding.
	takes(l3.Coding) bool

	// most is the largest batch that it takes.
	most() batchSize

	// newLane makes a lane. It is called, as are the lane's methods, by a
	// goroutine that is locked to its thread and uses no other lane.
	newLane() (lane, error)

	// check returns an error if the device works no more. A lane's goroutine
	// calls it.
	check() error

	// health says how the device fares.
	health() (nvml.Status, error)

	// close gives the device back, when none of its lanes is left. A lost
	// device is made to forget all that it has.
	close(lost bool) error
}

// A lane takes one batch after another. Those of several lanes overlap.
type lane interface {
	// run decodes the first images of a batch, as many as there is memory for,
	// and returns how many, and what it took, but for getting more memory. It
	// sets samples or refusal of each of these. The samples are good until the
	// next call. Any error is one of the device.
	run([]*deviceJob) (int, time.Duration, error)

	// close frees what the lane has, if the device still works.
	close()
}

// A batchSize is what a batch takes, or may take at most.
type batchSize struct {
	up      int64 // bytes that go to the device
	down    int64 // bytes that come from it
	patches int
}

func (s batchSize) plus(t batchSize) batchSize {
	return batchSize{s.up + t.up, s.down + t.down, s.patches + t.patches}
}

func (s batchSize) fits(most batchSize) bool {
	return s.up <= most.up && s.down <= most.down && s.patches <= most.patches
}

// A deviceJob is a request on its way through a device. Its memory is used again.
type deviceJob struct {
	request *Request
	plan    l3.Plan
	size    batchSize
	queued  time.Time
	place   turn          // in the queue
	done    chan struct{} // takes one message when the job has left the batch

	// What came out; these are written before the message, and read after it.
	samples []byte         // in memory of the lane, which batch.taken gives back
	refusal kernels.Status // of the first patch that was refused
	failed  bool           // it is not known whether the image is good
	batch   *batch
}

// setPlan sets the plan and size of a job, and reports whether the request is one
// for a device at all. Whatever is wrong with it is for the CPU to say.
func (j *deviceJob) setPlan(r *Request, limits l3.Limits) bool {
	if err := j.plan.Parse(r.Encoded, limits); err != nil {
		return false
	}
	if j.plan.Info.Shape.Bytes() != int64(len(r.Pix)) || len(j.plan.Patches) == 0 {
		return false
	}
	j.request, j.size = r, sizeOf(&j.plan, len(r.Encoded))
	return true
}

// isRaw reports whether a request that has no plan is for samples that are only to
// be copied.
func (j *deviceJob) isRaw() bool {
	return j.plan.Info.Coding == l3.Raw && j.plan.Info.Shape.Pixels() > 0
}

// clear forgets all but the memory.
func (j *deviceJob) clear() {
	j.request, j.samples, j.refusal, j.failed, j.batch = nil, nil, 0, false, nil
}

// align is what everything in the memory of a lane begins at a multiple of.
const align = 256

func aligned(n int64) int64 { return (n + align - 1) &^ (align - 1) }

// sizeOf returns what an image takes of a batch, alone or among others.
func sizeOf(p *l3.Plan, encoded int) batchSize {
	patches := int64(len(p.Patches))
	tables := int64(0)
	switch p.Info.Coding {
	case l3.Dense8:
		tables = int64(unsafe.Sizeof(kernels.Dense8Tables{}))
	case l3.Dense16:
		tables = int64(unsafe.Sizeof(kernels.Dense16Tables{}))
	case l3.Labels:
		tables = int64(unsafe.Sizeof(kernels.LabelsTables{}))
	}
	tables += 2*int64(len(p.Tables.Ranks)) + 2
	return batchSize{
		up: aligned(int64(encoded)) + aligned(tables) + aligned(int64(unsafe.Sizeof(kernels.Image{}))) +
			aligned(patches*int64(unsafe.Sizeof(kernels.Patch{}))) + int64(kernels.Count)*align,
		down:    aligned(p.Info.Shape.Bytes()) + aligned(4*patches) + int64(kernels.Count)*align,
		patches: int(patches),
	}
}
