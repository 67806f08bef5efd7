package dataset

import (
	"context"
	"errors"
	"strings"

	"prismfs/l3"
)

// Who lists a folder and wants to know of every sample in it asks for hundreds at a
// time. Then the folder is opened once for all of them, rather than walked to three
// times for each.

// nearFolder is an open folder of a store that is near.
type nearFolder interface {
	// Info describes the folder, now.
	Info() (Info, error)

	// Stat describes an entry that is a regular file by itself, not by a link. Of
	// every other one it gives errNoFile.
	Stat(name string) (Info, error)

	// ReadStart is nearStore's, for an entry that Stat describes.
	ReadStart(name string, p []byte) (Info, int, error)

	Close() error
}

// errNoFile says that an entry of a folder is a link, a folder or something else.
var errNoFile = errors.New("no regular file")

// Folder is a folder of which many samples are asked for. Its methods may be called at
// the same time.
type Folder struct {
	d    *Dataset
	path string
	near nearFolder // nil where samples are asked for one by one
}

// Folder opens a folder, which is to be closed.
func (d *Dataset) Folder(ctx context.Context, path string) (*Folder, error) {
	f := &Folder{d: d, path: path}
	near, ok := d.store.(nearStore)
	if !ok {
		return f, nil
	}
	if records, _, err := d.pcrFolderOf(ctx, join(path, "any"+SampleSuffix)); err != nil || records != nil {
		return f, err
	}
	open, err := near.OpenFolder(ctx, path)
	if errors.Is(err, errors.ErrUnsupported) {
		return f, nil
	}
	if err != nil {
		return nil, err
	}
	f.near = open
	return f, nil
}

// Info describes the folder as Dataset.Stat does, now.
func (f *Folder) Info(ctx context.Context) (Info, error) {
	if f.near != nil {
		return f.near.Info()
	}
	return f.d.Stat(ctx, f.path)
}

// Sample is Dataset.Sample of an entry.
func (f *Folder) Sample(ctx context.Context, name string) (*Sample, error) {
	path := join(f.path, name)
	if f.near == nil || sampleSuffix(name) != SampleSuffix || strings.Contains(name, "/") {
		return f.d.Sample(ctx, path)
	}
	s, err := f.sampleNear(path, name)
	if err != nil {
		// What it is, or what is wrong with it, is said in one place.
		return f.d.Sample(ctx, path)
	}
	return s, nil
}

func (f *Folder) sampleNear(path, name string) (*Sample, error) {
	info, err := f.near.Stat(name)
	if err != nil {
		return nil, err
	}
	if s := f.d.headers.get(path, info.ID); s != nil {
		return s, nil
	}
	buf := startPool.Get().(*[l3.PrefixBytes]byte)
	defer startPool.Put(buf)
	info, n, err := f.near.ReadStart(name, buf[:])
	if err != nil {
		return nil, err
	}
	head, err := l3.ReadInfo(start(buf[:n]), info.Size, f.d.limits)
	if err != nil {
		return nil, err
	}
	f.d.bytesIndex.Add(uint64(n))
	s := newSample(path, info, head)
	f.d.headers.add(s)
	return s, nil
}

// Close closes the folder.
func (f *Folder) Close() error {
	if f.near == nil {
		return nil
	}
	return f.near.Close()
}
