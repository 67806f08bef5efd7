package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"prismfs/pack"
)

// eachDataset calls visit for every dataset at some paths, of which there mostly is
// one. What is wrong with one keeps nobody from the others; the error is of all.
func eachDataset(ctx context.Context, paths []string, visit func(path string, alone bool) error) error {
	var failed error
	fail := func(path string, err error) {
		if failed == nil {
			failed = packedError(err, path)
		} else {
			failed = withStatus(statusOf(failed), fmt.Errorf("%w; %w", failed, err))
		}
	}
	var all []string
	for _, path := range paths {
		list, err := pack.Datasets(ctx, path)
		if err != nil {
			fail(path, err)
		}
		all = append(all, list...)
	}
	for _, one := range all {
		err := visit(one, len(paths) == 1 && len(all) == 1)
		if err != nil && ctx.Err() != nil {
			return packedError(err, one)
		}
		if err != nil {
			fail(one, err)
		}
	}
	return failed
}

// packedError is packageError for commands that read what is packed. They are
// easily given the mount of a dataset in place of the dataset.
func packedError(err error, path string) error {
	var nothing *pack.NotPackedError
	if errors.As(err, &nothing) {
		if source, ok := mountedSource(path); ok {
			return withStatus(statusBadInput, fmt.Errorf("%s lies in a mount of prismfs, which shows images decoded: name what is packed, the source of the mount%s",
				pack.Printable(path), source))
		}
	}
	return packageError(err)
}

// fuseMagic is the type of FUSE file systems in statfs(2).
const fuseMagic = 0x65735546

// mountedSource tells whether a path lies in a mount of ours, and what the source
// of that is, as ", PATH", as far as the mount says it.
func mountedSource(path string) (source string, ok bool) {
	at, err := filepath.EvalSymlinks(path)
	if err == nil {
		at, err = filepath.Abs(at)
	}
	if err != nil {
		return "", false
	}
	for {
		var kind unix.Statfs_t
		if err := unix.Statfs(at, &kind); err != nil || kind.Type != fuseMagic {
			return "", false
		}
		text, err := os.ReadFile(filepath.Join(at, ".prismfs", "config"))
		if err == nil {
			var config struct{ Source string }
			if json.Unmarshal(text, &config) == nil && config.Source != "" {
				source = ", " + pack.Printable(config.Source)
			}
			return source, true
		}
		at = filepath.Dir(at)
	}
}
