package pack

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// apart resolves source and destination and refuses those of which one holds
// the other. The destination need not exist.
func apart(src, dst string) (source string, err error) {
	source, err = resolveSource(src)
	if err != nil {
		return "", err
	}
	srcInfo, err := os.Stat(source)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrSource, err)
	}
	if !srcInfo.IsDir() {
		return "", fmt.Errorf("%w: %s is no folder", ErrSource, Printable(src))
	}
	dest, err := resolveExisting(dst)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrDestination, err)
	}
	if within(source, dest) || holds(srcInfo, dest) {
		return "", fmt.Errorf("%w: %s is the source %s or lies in it; choose a folder outside", ErrDestination, Printable(dst), Printable(src))
	}
	if destInfo, err := os.Stat(dest); err == nil && (within(dest, source) || holds(destInfo, source)) {
		return "", fmt.Errorf("%w: %s holds the source %s; choose a folder beside it", ErrDestination, Printable(dst), Printable(src))
	}
	return source, nil
}

// resolveSource returns the absolute path of a source, without links.
func resolveSource(src string) (string, error) {
	abs, err := filepath.Abs(src)
	if err == nil {
		abs, err = filepath.EvalSymlinks(abs)
	}
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrSource, err)
	}
	return abs, nil
}

// resolveExisting resolves the part of a path that exists.
func resolveExisting(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	var missing string
	for {
		resolved, err := filepath.EvalSymlinks(abs)
		if err == nil {
			return filepath.Join(resolved, missing), nil
		}
		if !errors.Is(err, fs.ErrNotExist) || abs == "/" {
			return "", err
		}
		if _, err := os.Lstat(abs); err == nil {
			return "", fmt.Errorf("%s is a symbolic link that leads nowhere", Printable(abs))
		}
		missing = filepath.Join(filepath.Base(abs), missing)
		abs = filepath.Dir(abs)
	}
}

// holds tells whether path or a folder above it is the folder dir, by device
// and inode: bind mounts give one folder several paths.
func holds(dir fs.FileInfo, path string) bool {
	for {
		if info, err := os.Stat(path); err == nil && os.SameFile(dir, info) {
			return true
		}
		if path == "/" || path == "." {
			return false
		}
		path = filepath.Dir(path)
	}
}
