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

// eachDataset calls visit for every dataset at path, which mostly is one. What is
// wrong with one keeps nobody from the others; the error is of all.
func eachDataset(ctx context.Context, path string, visit func(path string, alone bool) error) error {
	list, err := pack.Datasets(ctx, path)
	if err != nil {
		return packedError(err, path)
	}
	var failed error
	for _, one := range list {
		err := visit(one, len(list) == 1)
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return packedError(err, one)
		case failed == nil:
			failed = packedError(err, one)
		default:
			failed = withStatus(statusOf(failed), fmt.Errorf("%w; %w", failed, err))
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
