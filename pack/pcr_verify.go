package pack

import (
	"context"
	"sort"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"prismfs/dataset"
)

// verifyPCR is Verify for a folder of records: every image is read at full
// fidelity, compared with its checksums where it has any, and decoded.
func verifyPCR(ctx context.Context, resolved, path string, opt VerifyOptions) (*Verification, error) {
	start := time.Now()
	folder, err := openPCRFolder(ctx, resolved, dataset.NoTables)
	if err != nil {
		return nil, err
	}
	defer folder.Close()
	if folder.isEmpty() && !folder.hasBadRecord() {
		return nil, folder.noImages()
	}
	v := &pcrVerifier{folder: folder, progress: opt.Progress, total: folder.summary.Images, result: &Verification{
		Path: path, SourceDecoders: []Count{}, Unfinished: folder.unfinished != "", UnfinishedBecause: folder.unfinished,
		Records: folder.summary.Records, StaleRecords: len(folder.summary.Stale), Bad: []Refusal{},
	}}
	if err := v.run(ctx, opt.Jobs); err != nil {
		return nil, sourceError(err)
	}
	r := v.result
	bad := folder.bad()
	if text := folder.hidden(r.Samples); text != "" {
		bad = append(bad, Refusal{".", text})
	}
	bad = append(bad, folder.damaged()...)
	r.WithoutCRC = min(r.Good, folder.withoutChecksums())
	r.BadRecords = len(bad)
	r.Bad = append(r.Bad, bad...)
	sort.Slice(r.Bad, func(i, j int) bool { return r.Bad[i].Path < r.Bad[j].Path })
	r.Seconds = time.Since(start).Seconds()
	return r, nil
}

type pcrVerifier struct {
	folder   *pcrFolder
	progress func(done, total int)
	total    int

	mu     sync.Mutex
	result *Verification
}

// run checks all images with several jobs.
func (v *pcrVerifier) run(ctx context.Context, jobs int) error {
	paths := make(chan string, 4*jobs)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		defer close(paths)
		return v.folder.samples(ctx, func(path string) error {
			select {
			case paths <- path:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	})
	for range jobs {
		group.Go(func() error {
			var data []byte
			for path := range paths {
				sample, err := v.folder.ds.Sample(ctx, path)
				if err == nil {
					data, err = v.folder.ds.ReadEncoded(ctx, sample, 0, data)
				}
				if err == nil {
					err = checkSample(sample, data)
				}
				if ctx.Err() != nil {
					return ctx.Err()
				}
				v.count(path, sample, int64(len(data)-len(eoi)), err)
			}
			return nil
		})
	}
	return group.Wait()
}

// count adds an image of so many bytes in its record to the result.
func (v *pcrVerifier) count(path string, s *dataset.Sample, size int64, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	r := v.result
	r.Samples++
	if err != nil {
		r.Bad = append(r.Bad, Refusal{path, reasonOf(err)})
	} else {
		r.Good++
		r.FileBytes += size
		r.RawBytes += s.Shape.Bytes()
	}
	if v.progress != nil {
		v.progress(r.Samples, v.total)
	}
}
