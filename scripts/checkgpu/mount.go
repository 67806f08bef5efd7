package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"
)

// A mountRow is what comes out of a mount with each backend, in bytes a second.
type mountRow struct{ cuda, cpu float64 }

// mountFiles is how many files are read of each coding.
const (
	mountFiles      = 192
	mountFilesQuick = 8
)

// measureMounts reads each coding through mounts. It returns why there is nothing
// to be measured, if so.
func measureMounts(ctx context.Context, opt options, rows []row, images map[string][]*sample) (noMount string, err error) {
	if f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0); err != nil {
		return err.Error(), nil
	} else if err := f.Close(); err != nil {
		return "", err
	}
	if _, err := os.Stat(opt.prismfs); err != nil {
		return err.Error(), nil
	}
	work, err := os.MkdirTemp("", "prismfs-checkgpu-")
	if err != nil {
		return "", err
	}
	for i := range rows {
		source := filepath.Join(work, "packed", fmt.Sprint(i))
		if err = writeTree(source, images[rows[i].name], opt.quick); err != nil {
			break
		}
		m := &rows[i].mount
		if m.cuda, err = readMounted(ctx, opt, "cuda", source, images[rows[i].name]); err != nil {
			break
		}
		if m.cpu, err = readMounted(ctx, opt, "cpu", source, images[rows[i].name]); err != nil {
			break
		}
	}
	// RemoveAll would walk into a mount that was left.
	if err != nil {
		return "", fmt.Errorf("%w (files are left in %s)", err, work)
	}
	return "", os.RemoveAll(work)
}

// mounts are where something is mounted now.
var mounts sync.Map

// leaveMount unmounts at the end of a run that takes too long.
func leaveMount(opt options) {
	mounts.Range(func(mountpoint, _ any) bool {
		if err := prismfs(context.Background(), opt, "umount", "--lazy", mountpoint.(string)); err != nil {
			fmt.Fprintln(os.Stderr, "checkgpu:", err)
		}
		return true
	})
}

// writeTree writes files of a coding: some, under many names.
func writeTree(dir string, images []*sample, quick bool) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	count := mountFiles
	if quick {
		count = mountFilesQuick
	}
	for i := range count {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%04d.l3", i)), images[i%len(images)].file, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// readMounted mounts a folder, reads all of it once, compares it, and returns the
// rate.
func readMounted(ctx context.Context, opt options, backend, source string, images []*sample) (rate float64, err error) {
	mountpoint, err := os.MkdirTemp("", "prismfs-checkgpu-mount-")
	if err != nil {
		return 0, err
	}
	args := []string{"mount", "--backend", backend, "--view", "raw", "--read-ahead", "off"}
	if backend == "cuda" && opt.device != "" {
		args = append(args, "--device", opt.device)
	}
	if err := prismfs(ctx, opt, append(args, source, mountpoint)...); err != nil {
		return 0, errors.Join(err, os.Remove(mountpoint))
	}
	mounts.Store(mountpoint, nil)
	defer mounts.Delete(mountpoint)
	rate, err = readAll(mountpoint, source, images)
	if err == nil && backend == "cuda" {
		err = checkStats(mountpoint)
	}
	return rate, errors.Join(err, prismfs(ctx, opt, "umount", "--lazy", mountpoint), os.Remove(mountpoint))
}

func prismfs(ctx context.Context, opt options, args ...string) error {
	if out, err := exec.CommandContext(ctx, opt.prismfs, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("prismfs %s: %w: %s", args[0], err, bytes.TrimSpace(out))
	}
	return nil
}

// checkStats finds out whether the GPU has decoded all that was read.
func checkStats(mountpoint string) error {
	text, err := os.ReadFile(filepath.Join(mountpoint, ".prismfs", "stats"))
	if err != nil {
		return err
	}
	var s struct {
		Decoded uint64 `json:"decoded"`
		Device  struct {
			Images        uint64 `json:"images"`
			FailedBatches uint64 `json:"failed_batches"`
		} `json:"device"`
	}
	if err := json.Unmarshal(text, &s); err != nil {
		return err
	}
	if s.Device.Images != s.Decoded || s.Device.FailedBatches > 0 {
		return fmt.Errorf("%d of %d images were decoded on the device: %s", s.Device.Images, s.Decoded, text)
	}
	return nil
}

// readAll reads the files of a mount, many at a time.
func readAll(mountpoint, source string, images []*sample) (float64, error) {
	packed, err := os.ReadDir(source)
	if err != nil {
		return 0, err
	}
	files := make([][]byte, len(packed))
	begun := time.Now()
	err = eachAtOnce(len(files), func(i int) (err error) {
		files[i], err = os.ReadFile(filepath.Join(mountpoint, fmt.Sprintf("%04d.raw", i)))
		return err
	})
	seconds, total := time.Since(begun).Seconds(), 0
	for i, got := range files {
		total += len(got)
		if want := images[i%len(images)].image.Pix; err == nil && !bytes.Equal(got, want) {
			err = fmt.Errorf("%04d.raw is wrong", i)
		}
	}
	return float64(total) / seconds, err
}
