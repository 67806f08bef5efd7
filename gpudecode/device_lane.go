package gpudecode

import (
	"errors"
	"time"
	"unsafe"

	"prismfs/gpudecode/cuda"
	"prismfs/gpudecode/kernels"
)

// A cudaLane is a stream with the memory of a batch. What goes to the device
// stands in one piece in the order of bytes of files, images, patches of each
// kernel, tables; what comes from it is samples, then statuses of each kernel.
type cudaLane struct {
	device *cudaDevice
	stream *cuda.Stream
	batch  kernels.Batch

	upHost, downHost     []byte // pinned
	upDevice, downDevice cuda.Memory
}

// newLane implements device.
func (x *cudaDevice) newLane() (lane, error) {
	if err := x.device.Bind(); err != nil {
		return nil, err
	}
	stream, err := x.device.NewStream()
	if err != nil {
		return nil, errors.Join(err, x.device.Unbind())
	}
	return &cudaLane{device: x, stream: stream}, nil
}

// close frees everything. On a lost device that fails, and whoever gives the
// device back frees it.
func (l *cudaLane) close() {
	d := l.device.device
	_ = errors.Join(d.Free(l.upDevice), d.Free(l.downDevice), d.FreeHost(l.upHost), d.FreeHost(l.downHost),
		l.stream.Close(), d.Unbind())
}

// A placing is where the parts of a batch are, in the memory that goes up and
// down.
type placing struct {
	encodedBytes int64 // from the first byte on
	images       int64
	patches      [kernels.Count]int64
	tables       int64
	up           int64

	pixelBytes int64 // from the first byte on
	statuses   [kernels.Count]int64
	down       int64

	samples []int64 // of each job
	files   []int64 // of each job
}

// run implements lane.
func (l *cudaLane) run(jobs []*deviceJob) (int, time.Duration, error) {
	var size batchSize
	for _, j := range jobs {
		size = size.plus(j.size)
	}
	if err := l.grow(size); err != nil {
		return 0, 0, err
	}
	jobs = l.fitting(jobs)
	if len(jobs) == 0 {
		return 0, 0, nil
	}
	begun := time.Now()
	p := l.place(jobs)
	l.fill(jobs, p)
	if err := l.queue(p); err != nil {
		// What was queued before the error may still be running, in memory
		// that the next batch uses.
		return 0, 0, errors.Join(err, l.stream.Synchronize())
	}
	if err := l.stream.Synchronize(); err != nil {
		return 0, 0, err
	}
	l.results(jobs, p)
	return len(jobs), time.Since(begun), nil
}

// fitting returns the first jobs that there is memory for.
func (l *cudaLane) fitting(jobs []*deviceJob) []*deviceJob {
	var size batchSize
	have := batchSize{up: int64(len(l.upHost)), down: int64(len(l.downHost)), patches: mostPatches}
	for i, j := range jobs {
		if size = size.plus(j.size); !size.fits(have) {
			return jobs[:i]
		}
	}
	return jobs
}

// place makes the batch's descriptors and gives everything a place.
func (l *cudaLane) place(jobs []*deviceJob) *placing {
	p := &placing{samples: make([]int64, len(jobs)), files: make([]int64, len(jobs))}
	b := &l.batch
	b.Reset()
	for i, j := range jobs {
		p.files[i], p.samples[i] = p.encodedBytes, p.pixelBytes
		b.Add(&j.plan, uint64(p.encodedBytes), kernels.Destination{At: uint64(p.pixelBytes)})
		p.encodedBytes += aligned(int64(len(j.request.Encoded)))
		p.pixelBytes += aligned(int64(len(j.request.Pix)))
	}
	p.images = p.encodedBytes
	p.tables = p.images + aligned(int64(len(asBytes(b.Images))))
	at := p.tables + aligned(int64(len(asBytes(b.Tables))))
	p.down = p.pixelBytes
	for k := range b.Patches {
		p.patches[k], p.statuses[k] = at, p.down
		at += aligned(int64(len(asBytes(b.Patches[k]))))
		p.down += aligned(4 * int64(len(b.Patches[k])))
	}
	p.up = at
	return p
}

// fill copies what goes up into pinned memory.
func (l *cudaLane) fill(jobs []*deviceJob, p *placing) {
	for i, j := range jobs {
		n := copy(l.upHost[p.files[i]:], j.request.Encoded)
		// Kernels read whole words.
		clear(l.upHost[p.files[i]+int64(n) : p.files[i]+aligned(int64(n))])
	}
	b := &l.batch
	copy(l.upHost[p.images:], asBytes(b.Images))
	copy(l.upHost[p.tables:], asBytes(b.Tables))
	for k := range b.Patches {
		copy(l.upHost[p.patches[k]:], asBytes(b.Patches[k]))
	}
}

// queue queues copies and kernels.
func (l *cudaLane) queue(p *placing) error {
	if err := l.stream.Upload(l.upDevice, 0, l.upHost[:p.up]); err != nil {
		return err
	}
	words := (p.down - p.pixelBytes) / 4
	if err := l.stream.Fill(l.downDevice, p.pixelBytes, words, uint32(kernels.StatusWaiting)); err != nil {
		return err
	}
	for k := range kernels.Count {
		n := len(l.batch.Patches[k])
		if n == 0 {
			continue
		}
		if k != kernels.Published { // which has no checksums
			if err := l.launch(l.device.checksum, k, n, p); err != nil {
				return err
			}
		}
		if err := l.launch(l.device.kernels[k], k, n, p); err != nil {
			return err
		}
	}
	return l.stream.Download(l.downHost[:p.down], l.downDevice, 0)
}

// launch queues a kernel for n patches of kernel k.
func (l *cudaLane) launch(kernel *cuda.Kernel, k kernels.Kernel, n int, p *placing) error {
	up, down := l.upDevice.Address, l.downDevice.Address
	return kernel.Launch(l.stream, k.Blocks(n), kernels.BlockThreads,
		up, uint64(p.encodedBytes), down, uint64(p.pixelBytes),
		up+uint64(p.images), up+uint64(p.patches[k]), uint64(n), up+uint64(p.tables), down+uint64(p.statuses[k]))
}

// results sets what came out of each job.
func (l *cudaLane) results(jobs []*deviceJob, p *placing) {
	for i, j := range jobs {
		n := int64(len(j.request.Pix))
		j.samples = l.downHost[p.samples[i] : p.samples[i]+n : p.samples[i]+n]
	}
	for k := range l.batch.Patches {
		patches := l.batch.Patches[k]
		if len(patches) == 0 {
			continue
		}
		statuses := unsafe.Slice((*kernels.Status)(unsafe.Pointer(&l.downHost[p.statuses[k]])), len(patches))
		for i, s := range statuses {
			if j := jobs[patches[i].Image]; s != kernels.StatusOK && j.refusal == kernels.StatusOK {
				j.refusal = s
			}
		}
	}
}

// asBytes returns the memory of a slice of structs or words.
func asBytes[T any](s []T) []byte {
	if len(s) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&s[0])), len(s)*int(unsafe.Sizeof(s[0])))
}
