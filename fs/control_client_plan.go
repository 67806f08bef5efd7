package fs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"prismfs/order"
)

// ErrNotMountPoint says that a path lies in a mount and is not its mount point.
var ErrNotMountPoint = errors.New("this is about whole mounts; name the mount point")

// A mount takes a few plans at a time; whoever comes then tries again, after
// sendPause and longer and longer pauses, for sendPatience in all.
const (
	sendPause    = 100 * time.Millisecond
	maxSendPause = 3 * time.Second
	sendPatience = 2 * time.Minute
)

// PutPlan hands a plan over to the mount at a mount point: paths, one a line, in
// the order in which they will be read from line start on. It takes the place of
// the plan of the same name. Where the mount takes others just now it waits, for two
// minutes at most. If the mount finds nothing at the paths, and the folder that this
// process works in lies beside or in the mount, they are taken as relative to it.
func PutPlan(ctx context.Context, mountpoint, name string, start int64, paths io.Reader) (PlanProgress, error) {
	at, err := mountPointOf(mountpoint)
	if err != nil {
		return PlanProgress{}, err
	}
	prefix, err := filepath.Abs(mountpoint) // as it is written, perhaps by way of links
	if err != nil {
		return PlanProgress{}, err
	}
	body, begin, size, err := sized(paths)
	if err != nil {
		return PlanProgress{}, fmt.Errorf("reading the plan: %w", err)
	}
	if body != paths {
		defer body.Close()
	}
	query := url.Values{"name": {name}, "start": {strconv.FormatInt(start, 10)}, "prefix": {prefix}}
	plan, err := sendPlan(ctx, at, query, io.NewSectionReader(body, begin, size))
	if refused := (*RefusedError)(nil); errors.As(err, &refused) && refused.Status == http.StatusBadRequest {
		here, size, changed, hereErr := fromWorkingFolder(io.NewSectionReader(body, begin, size), at, prefix)
		if hereErr != nil {
			return PlanProgress{}, fmt.Errorf("reading the plan: %w", hereErr)
		}
		defer here.Close()
		if changed {
			plan, err = sendPlan(ctx, at, query, io.NewSectionReader(here, 0, size))
		}
	}
	if err != nil {
		return PlanProgress{}, fmt.Errorf("handing a plan over to %s: %w", at, err)
	}
	return plan, nil
}

// sendPlan sends a plan to the mount at a mount point.
func sendPlan(ctx context.Context, at string, query url.Values, paths *io.SectionReader) (PlanProgress, error) {
	c, err := dialControl(ctx, at)
	if err != nil {
		return PlanProgress{}, err
	}
	defer c.CloseIdleConnections()
	var out struct {
		Plan PlanProgress `json:"plan"`
	}
	err = sendPatiently(ctx, func() error {
		request := controlRequest{
			method: http.MethodPut, target: "/plan?" + query.Encode(), body: io.NewSectionReader(paths, 0, paths.Size()), size: paths.Size(), patient: true,
		}
		return call(ctx, c, request, &out)
	})
	return out.Plan, err
}

// sendPatiently repeats a request for as long as the mount asks for that. The
// pauses are random, since those who were refused together come again.
func sendPatiently(ctx context.Context, send func() error) error {
	until := time.Now().Add(sendPatience)
	for pause := sendPause; ; pause = min(2*pause, maxSendPause) {
		err := send()
		var refused *RefusedError
		if !errors.As(err, &refused) || !refused.Again || time.Now().Add(pause).After(until) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause/2 + rand.N(pause/2)):
		}
	}
}

// sized returns what a reader has, as a file, where it begins there and how many
// bytes that is. What is no file is kept in one first: the mount does not wait for
// whoever is slow to make a plan, and may want it twice.
func sized(r io.Reader) (f *os.File, begin, size int64, err error) {
	if f, ok := r.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
			at, err := f.Seek(0, io.SeekCurrent)
			return f, at, max(0, info.Size()-at), err
		}
	}
	kept, err := order.UnnamedFile("")
	if err != nil {
		return nil, 0, 0, err
	}
	size, err = io.Copy(kept, io.LimitReader(r, order.MaxPlanBytes+1)) // the mount refuses one more
	if err != nil {
		return nil, 0, 0, errors.Join(err, kept.Close())
	}
	return kept, 0, size, nil
}

// Plans asks the mount at a mount point for its plans, sorted by name.
func Plans(ctx context.Context, mountpoint string) ([]PlanProgress, error) {
	at, err := mountPointOf(mountpoint)
	if err != nil {
		return nil, err
	}
	var out struct {
		Plans []PlanProgress `json:"plans"`
	}
	if err := ask(ctx, at, http.MethodGet, "/plan", nil, &out); err != nil {
		return nil, fmt.Errorf("asking %s for its plans: %w", at, err)
	}
	return out.Plans, nil
}

// RemovePlan removes a plan of the mount at a mount point. What has been decoded
// for it stays in the cache.
func RemovePlan(ctx context.Context, mountpoint, name string) error {
	at, err := mountPointOf(mountpoint)
	if err != nil {
		return err
	}
	var out struct{}
	if err := ask(ctx, at, http.MethodDelete, "/plan?name="+url.QueryEscape(name), nil, &out); err != nil {
		return fmt.Errorf("removing a plan of %s: %w", at, err)
	}
	return nil
}

// mountPointOf returns the mount point of ours that a path is.
func mountPointOf(path string) (string, error) {
	at, below, err := splitMountPath(path)
	if err != nil {
		return "", err
	}
	if below != "" {
		return "", fmt.Errorf("%s: %w, %s", path, ErrNotMountPoint, at)
	}
	return at, nil
}
