package main

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"unsafe"

	"prismfs/gpudecode/cuda"
	"prismfs/gpudecode/kernels"
)

// A card is the device without the decoder: kernels, memory and streams. It is for
// one goroutine, which stays on its thread.
type card struct {
	device   *cuda.Device
	module   *cuda.Module
	checksum *cuda.Kernel
	kernels  [kernels.Count]*cuda.Kernel
}

// openCard opens the device that the decoder has chosen, whose name has its UUID.
func openCard(name string) (*card, error) {
	runtime.LockOSThread()
	lib, err := cuda.Load()
	if err != nil {
		return nil, err
	}
	visible, err := lib.Devices()
	if err != nil {
		return nil, err
	}
	for _, v := range visible {
		if strings.Contains(name, fmt.Sprintf("device %d,", v.Ordinal)) {
			return newCard(lib, v.Ordinal)
		}
	}
	return nil, fmt.Errorf("the driver does not show %s", name)
}

func newCard(lib *cuda.Library, ordinal int) (*card, error) {
	device, err := lib.Open(ordinal)
	if err != nil {
		return nil, err
	}
	c := &card{device: device}
	if err := device.Bind(); err != nil {
		return nil, err
	}
	if c.module, err = device.LoadModule(kernels.PTX); err != nil {
		return nil, err
	}
	if c.checksum, err = c.module.Kernel(kernels.ChecksumName); err != nil {
		return nil, err
	}
	for k := range kernels.Count {
		if c.kernels[k], err = c.module.Kernel(k.Name()); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func (c *card) close() error {
	return errors.Join(c.module.Unload(), c.device.Unbind(), c.device.Close())
}

// A work is a batch with its memory, on a stream of its own.
type work struct {
	card         *card
	stream       *cuda.Stream
	batch        kernels.Batch
	upHost, down []byte // pinned
	up, out      cuda.Memory

	encodedBytes, pixelBytes int64
	images, tables           int64 // places in up, as follows
	patches                  [kernels.Count]int64
	statuses                 [kernels.Count]int64 // places in out
	samples                  []int64              // places in out, of each image
}

// place is what every part begins at a multiple of.
const place = 256

func placed(n int) int64 { return (int64(n) + place - 1) &^ (place - 1) }

func asBytes[T any](s []T) []byte {
	if len(s) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&s[0])), len(s)*int(unsafe.Sizeof(s[0])))
}

// newWork makes a batch of files that kernels take. Damaged ones must still have
// their heads.
func (c *card) newWork(samples []*sample, files [][]byte, planar bool) (*work, error) {
	w := &work{card: c}
	for i, s := range samples {
		w.samples = append(w.samples, w.pixelBytes)
		w.batch.Add(&s.plan, uint64(w.encodedBytes), kernels.Destination{At: uint64(w.pixelBytes), Planar: planar})
		w.encodedBytes += placed(len(files[i]))
		w.pixelBytes += placed(len(s.image.Pix))
	}
	w.images = w.encodedBytes
	w.tables = w.images + placed(len(asBytes(w.batch.Images)))
	at, out := w.tables+placed(len(asBytes(w.batch.Tables))), w.pixelBytes
	for k := range w.batch.Patches {
		w.patches[k], w.statuses[k] = at, out
		at += placed(len(asBytes(w.batch.Patches[k])))
		out += placed(4 * len(w.batch.Patches[k]))
	}
	if err := w.allocate(at, out); err != nil {
		return nil, errors.Join(err, w.free())
	}
	file := int64(0)
	for i := range files {
		copy(w.upHost[file:], files[i])
		file += placed(len(files[i]))
	}
	copy(w.upHost[w.images:], asBytes(w.batch.Images))
	copy(w.upHost[w.tables:], asBytes(w.batch.Tables))
	for k := range w.batch.Patches {
		copy(w.upHost[w.patches[k]:], asBytes(w.batch.Patches[k]))
	}
	return w, nil
}

func (w *work) allocate(up, out int64) error {
	var err error
	d := w.card.device
	if w.stream, err = d.NewStream(); err != nil {
		return err
	}
	if w.upHost, err = d.AllocHost(int(up)); err != nil {
		return err
	}
	clear(w.upHost)
	if w.down, err = d.AllocHost(int(out)); err != nil {
		return err
	}
	if w.up, err = d.Alloc(up); err != nil {
		return err
	}
	w.out, err = d.Alloc(out)
	return err
}

func (w *work) free() error {
	if w.stream == nil {
		return nil
	}
	d := w.card.device
	return errors.Join(w.stream.Close(), d.FreeHost(w.upHost), d.FreeHost(w.down), d.Free(w.up), d.Free(w.out))
}

func (w *work) upload() error { return w.stream.Upload(w.up, 0, w.upHost) }

func (w *work) download() error { return w.stream.Download(w.down, w.out, 0) }

// launch queues all kernels that the batch needs.
func (w *work) launch() error {
	words := (int64(len(w.down)) - w.pixelBytes) / 4
	if err := w.stream.Fill(w.out, w.pixelBytes, words, uint32(kernels.StatusWaiting)); err != nil {
		return err
	}
	for k := range kernels.Count {
		n := len(w.batch.Patches[k])
		if n == 0 {
			continue
		}
		arguments := []uint64{
			w.up.Address, uint64(w.encodedBytes), w.out.Address, uint64(w.pixelBytes), w.up.Address + uint64(w.images),
			w.up.Address + uint64(w.patches[k]), uint64(n), w.up.Address + uint64(w.tables), w.out.Address + uint64(w.statuses[k]),
		}
		if k != kernels.Published { // which has no checksums
			if err := w.card.checksum.Launch(w.stream, k.Blocks(n), kernels.BlockThreads, arguments...); err != nil {
				return err
			}
		}
		if err := w.card.kernels[k].Launch(w.stream, k.Blocks(n), kernels.BlockThreads, arguments...); err != nil {
			return err
		}
	}
	return nil
}

// once does everything once.
func (w *work) once() error {
	if err := errors.Join(w.upload(), w.launch(), w.download()); err != nil {
		return err
	}
	return w.stream.Synchronize()
}

// worst returns a status other than StatusOK of each image that has one.
func (w *work) worst() map[int]kernels.Status {
	bad := make(map[int]kernels.Status)
	for k, patches := range w.batch.Patches {
		if len(patches) == 0 {
			continue
		}
		statuses := unsafe.Slice((*kernels.Status)(unsafe.Pointer(&w.down[w.statuses[k]])), len(patches))
		for i, s := range statuses {
			if s != kernels.StatusOK {
				bad[int(patches[i].Image)] = s
			}
		}
	}
	return bad
}
