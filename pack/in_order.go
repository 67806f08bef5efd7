package pack

import (
	"context"

	"golang.org/x/sync/errgroup"
)

// lookAhead is how many results a job may be ahead of those that were taken.
const lookAhead = 2

// inOrder works on the numbers from first to end-1 with several jobs, and calls
// take with the results in the order of the numbers, never twice at once, until
// take returns false or ctx ends. newJob gives each job its function, and what
// frees that.
func inOrder[T any](ctx context.Context, jobs, first, end int,
	newJob func() (work func(at int) T, free func(), err error), take func(at int, result T) bool) error {
	type place struct {
		at     int
		result chan T
	}
	outer := ctx
	group, ctx := errgroup.WithContext(ctx)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	todo := make(chan place)
	results := make(chan chan T, lookAhead*jobs) // in order; its room is the limit of what waits
	group.Go(func() error {
		defer close(todo)
		defer close(results)
		for at := first; at < end; at++ {
			p := place{at, make(chan T, 1)}
			select {
			case results <- p.result:
			case <-ctx.Done():
				return nil
			}
			select {
			case todo <- p:
			case <-ctx.Done():
				return nil
			}
		}
		return nil
	})
	for range min(jobs, end-first) {
		group.Go(func() error {
			work, free, err := newJob()
			if err != nil {
				return err
			}
			defer free()
			for p := range todo {
				if ctx.Err() != nil {
					return nil
				}
				p.result <- work(p.at)
			}
			return nil
		})
	}
	group.Go(func() error {
		defer stop()
		at := first
		for result := range results {
			select {
			case r := <-result:
				if !take(at, r) {
					return nil
				}
				at++
			case <-ctx.Done():
				return nil
			}
		}
		return nil
	})
	if err := group.Wait(); err != nil {
		return err
	}
	return outer.Err()
}
