package pack

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// maxLinkDepth limits how many links to folders are followed inside one
// another. Folders that link to each other crosswise would otherwise be
// visited a number of times that grows exponentially.
const maxLinkDepth = 8

// A directory is one folder of a tree, with what stands in it.
type directory struct {
	path    string // relative to the tree's root, "" for the root itself
	mode    fs.FileMode
	files   []string // names of regular files and of links to them, bytewise sorted
	folders []string // names of folders, those refused included, bytewise sorted
	refused []Refusal
}

// join returns the path, relative to the tree's root, of a name in d.
func (d *directory) join(name string) string {
	if d.path == "" {
		return name
	}
	return d.path + "/" + name
}

// A walker visits the folders of a tree, each before the folders in it, in
// bytewise order. Links are followed while they stay inside the tree.
type walker struct {
	root  string // absolute, without links
	visit func(*directory) error
	// The folders from the root to the one being visited, to detect loops.
	chain []fs.FileInfo
	links int // how many of chain were reached by a link
}

// A walkFunc visits the folders of a tree as walk does.
type walkFunc func(ctx context.Context, visit func(*directory) error) error

// walkOf returns the walk of a folder of this machine.
func walkOf(root string) walkFunc {
	return func(ctx context.Context, visit func(*directory) error) error { return walk(ctx, root, visit) }
}

// walk visits the tree at root, an absolute path without symbolic links, until
// visit returns an error or ctx ends. A folder that cannot be read is a refusal
// in the folder that holds it; only a root that cannot be read is an error.
func walk(ctx context.Context, root string, visit func(*directory) error) error {
	info, err := os.Stat(root)
	if err != nil {
		return err
	}
	entries, err := os.ReadDir(root)
	if err != nil {
		return err
	}
	w := &walker{root: root, visit: visit, chain: []fs.FileInfo{info}}
	return w.directory(ctx, &directory{mode: info.Mode()}, entries)
}

// A subfolder is a folder to descend into.
type subfolder struct {
	name   string
	info   fs.FileInfo
	linked bool
}

func (w *walker) directory(ctx context.Context, d *directory, entries []fs.DirEntry) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	var below []subfolder
	for _, e := range entries {
		sub, err := w.classify(d, e)
		switch {
		case err != nil:
			d.refused = append(d.refused, Refusal{Path: d.join(e.Name()), Reason: reasonOf(err)})
		case sub != nil:
			below = append(below, *sub)
		}
	}
	// A folder is opened before its parent is reported, so that the report
	// is complete; its entries are read when its turn comes.
	readable := below[:0]
	for _, sub := range below {
		if err := w.probe(d, sub.name); err != nil {
			d.refused = append(d.refused, Refusal{Path: d.join(sub.name), Reason: reasonOf(err)})
			continue
		}
		readable = append(readable, sub)
	}
	if err := w.visit(d); err != nil {
		return err
	}
	for _, sub := range readable {
		if err := w.descend(ctx, d, sub); err != nil {
			return err
		}
	}
	return nil
}

// probe tells whether a folder can be opened.
func (w *walker) probe(d *directory, name string) error {
	f, err := os.Open(w.full(d, name))
	if err != nil {
		return fmt.Errorf("the folder cannot be read: %w", err)
	}
	return f.Close()
}

func (w *walker) descend(ctx context.Context, d *directory, sub subfolder) error {
	child := &directory{path: d.join(sub.name), mode: sub.info.Mode()}
	entries, err := os.ReadDir(w.full(d, sub.name))
	if err != nil {
		child.refused = []Refusal{{Path: child.path, Reason: "the folder cannot be read: " + reasonOf(err)}}
		return w.visit(child)
	}
	w.chain = append(w.chain, sub.info)
	if sub.linked {
		w.links++
	}
	err = w.directory(ctx, child, entries)
	w.chain = w.chain[:len(w.chain)-1]
	if sub.linked {
		w.links--
	}
	return err
}

func (w *walker) full(d *directory, name string) string {
	return filepath.Join(w.root, d.path, name)
}

// classify files an entry under d. A folder to descend into is returned; an
// error is the reason why the entry is refused.
func (w *walker) classify(d *directory, e fs.DirEntry) (*subfolder, error) {
	name, full := e.Name(), w.full(d, e.Name())
	if reserved(name) {
		return nil, errors.New("the name is reserved: an unfinished run of prismfs left this file in the source")
	}
	switch e.Type() {
	case 0:
		d.files = append(d.files, name)
		return nil, nil
	case fs.ModeDir:
		d.folders = append(d.folders, name)
		info, err := os.Lstat(full)
		if err != nil {
			return nil, err
		}
		return &subfolder{name: name, info: info}, w.loop(info)
	case fs.ModeSymlink:
		return w.link(d, name, full)
	}
	return nil, specialError(e.Type())
}

// link files a symbolic link as what it leads to.
func (w *walker) link(d *directory, name, full string) (*subfolder, error) {
	info, err := os.Stat(full)
	if err == nil && info.IsDir() {
		// Also where it is refused below: ImageFolder counts it as a class.
		d.folders = append(d.folders, name)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, errors.New("the symbolic link leads nowhere")
	case errors.Is(err, syscall.ELOOP):
		return nil, errors.New("the symbolic link leads to itself")
	case err != nil:
		return nil, fmt.Errorf("the symbolic link cannot be followed: %w", err)
	}
	target, err := filepath.EvalSymlinks(full)
	if err != nil {
		return nil, fmt.Errorf("the symbolic link cannot be followed: %w", err)
	}
	if !within(w.root, target) {
		return nil, outsideError(target, info.IsDir())
	}
	switch info.Mode().Type() {
	case 0:
		d.files = append(d.files, name)
		return nil, nil
	case fs.ModeDir:
		if w.links >= maxLinkDepth {
			return nil, fmt.Errorf("more than %d linked folders inside one another", maxLinkDepth)
		}
		return &subfolder{name: name, info: info, linked: true}, w.loop(info)
	}
	return nil, specialError(info.Mode().Type())
}

// loop returns an error for a folder that is being visited already.
func (w *walker) loop(info fs.FileInfo) error {
	for _, above := range w.chain {
		if os.SameFile(above, info) {
			return errors.New("symbolic links lead from this folder back to itself: remove the link")
		}
	}
	return nil
}

// outsideError is the refusal of a link that leaves the tree.
func outsideError(target string, folder bool) error {
	remedy := "copy the folder with cp -rL first"
	if folder {
		remedy += ", or take the folder that it leads to"
	}
	return fmt.Errorf("the symbolic link leads out of the source, to %s: %s", Printable(target), remedy)
}

// specialError is the refusal of what is neither file, folder nor link.
func specialError(t fs.FileMode) error {
	kind := "special file"
	switch {
	case t&fs.ModeNamedPipe != 0:
		kind = "named pipe"
	case t&fs.ModeSocket != 0:
		kind = "socket"
	case t&fs.ModeDevice != 0:
		kind = "device"
	}
	return fmt.Errorf("it is a %s, neither file nor folder", kind)
}

// within tells whether path is dir or lies below it; both absolute and clean.
func within(dir, path string) bool {
	return path == dir || dir == "/" || strings.HasPrefix(path, dir+"/")
}

// reasonOf is an error for a list that names the path already.
func reasonOf(err error) string {
	var pe *fs.PathError
	if errors.As(err, &pe) && err == error(pe) {
		return pe.Err.Error()
	}
	return err.Error()
}
