package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"

	"github.com/spf13/cobra"

	"prismfs/dataset"
	"prismfs/internal/plural"
	"prismfs/pack"
)

// indexFlags are the flags of index.
type indexFlags struct {
	tableDir       string
	keepDuplicates bool
}

func newIndexCommand() *cobra.Command {
	var f indexFlags
	cmd := &cobra.Command{
		Use:   "index SRC",
		Short: "Find the images in PCR records ahead of a mount",
		Long: `Find where each image is in the PCR records of SRC, or of the folders in it, and
its shape. A mount finds both when it needs them and keeps them under the user's
cache folder; after 'prismfs index' it has them from the beginning. Mounts with
other --table-dir or --keep-duplicates have tables of their own. SRC is not
written to.`,
		Args: usedArguments,
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd, args[0])
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.tableDir, "table-dir", "", "folder for the tables (default: prismfs/tables in the user's cache folder)")
	flags.BoolVar(&f.keepDuplicates, "keep-duplicates", false, "for mounts that show repeated images, too")
	return cmd
}

func (f *indexFlags) run(cmd *cobra.Command, source string) error {
	if f.tableDir == dataset.NoTables {
		return usageError("--table-dir %s keeps tables in memory, where they would be lost", dataset.NoTables)
	}
	store, err := dataset.OpenLocal(source)
	if err != nil {
		return withStatus(statusBadInput, err)
	}
	defer store.Close()
	d := dataset.Open(store, dataset.Options{
		Logger: slog.Default(), TableDir: f.tableDir, KeepDuplicates: f.keepDuplicates,
	})
	folders, err := pcrFolders(cmd.Context(), d, "")
	if err != nil {
		return withStatus(statusBadInput, err)
	}
	if len(folders) == 0 {
		return withStatus(statusBadInput, fmt.Errorf("%s: %w, and has none in it", source, dataset.ErrNotPCR))
	}
	p := &printer{w: cmd.OutOrStdout()}
	incomplete := false
	for _, folder := range folders {
		whole, err := f.index(cmd, d, folder, p)
		if err != nil {
			return err
		}
		incomplete = incomplete || !whole
	}
	if p.err == nil && incomplete {
		return exitWith(statusSomeBad)
	}
	return p.err
}

// index makes the table of a PCR folder, says what it holds, and reports whether
// it is whole.
func (f *indexFlags) index(cmd *cobra.Command, d *dataset.Dataset, folder string, p *printer) (bool, error) {
	bar := newProgress(cmd, "indexing")
	err := d.BuildTables(cmd.Context(), folder, bar.update)
	bar.finish()
	if err != nil {
		return false, err
	}
	s, err := d.PCRFolder(cmd.Context(), folder)
	if err != nil {
		return false, err
	}
	if s.Table == "" {
		return false, noTable(d, folder, s)
	}
	p.line("%s", pack.Printable(filepath.Join(d.String(), folder)))
	p.line("  images          %d in %s and %s, up to %s", s.Images, plural.Of(s.Records, "record"), plural.Of(len(s.Labels), "class"), plural.Of(s.Levels, "fidelity"))
	p.line("  table           %s, %s", pack.Printable(s.Table), size(s.TableBytes))
	for _, part := range []struct {
		what string
		n    int
	}{
		{"images of the last record that repeat those of the one before", s.RepeatedImages},
		{"images with negative labels, not shown", s.RefusedImages},
		{"records that the index does not name, not shown", len(s.Stale)},
		{"records that the index names, missing", len(s.Missing)},
		{"entries or records that cannot be used", len(s.Bad)},
		{"damaged records, some of whose images cannot be read", len(s.Damaged)},
	} {
		if part.n > 0 {
			p.line("  %-15d %s", part.n, part.what)
		}
	}
	whole := s.TableFull == 1
	if !whole {
		p.line("  INCOMPLETE      %.1f %% of places and shapes could be found; 'prismfs verify' names the images", 100*s.TableFull)
	}
	return whole && len(s.Missing) == 0 && len(s.Bad) == 0, p.err
}

// noTable says why the table of a PCR folder is not on a disk.
func noTable(d *dataset.Dataset, folder string, s *dataset.PCRSummary) error {
	why := errors.New("it has become unreadable")
	if s.NoTable != nil {
		why = s.NoTable
	}
	return fmt.Errorf("no table of %s could be kept on disk: %w: mend that, or choose another --table-dir",
		pack.Printable(filepath.Join(d.String(), folder)), why)
}

// pcrFolders returns the PCR folders at and below a path, without those inside
// of others.
func pcrFolders(ctx context.Context, d *dataset.Dataset, path string) ([]string, error) {
	_, err := d.PCRFolder(ctx, path)
	if err == nil {
		return []string{path}, nil
	}
	if !errors.Is(err, dataset.ErrNotPCR) {
		return nil, err
	}
	var inside []string
	err = d.Scan(ctx, path, func(e dataset.DirEntry) bool {
		if e.Kind == dataset.Dir {
			inside = append(inside, e.Name)
		}
		return true
	})
	if errors.Is(err, fs.ErrPermission) && path != "" {
		slog.Warn("a folder cannot be looked into", "folder", filepath.Join(d.String(), path))
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var found []string
	for _, name := range inside {
		more, err := pcrFolders(ctx, d, joinPath(path, name))
		if err != nil {
			return nil, err
		}
		found = append(found, more...)
	}
	return found, nil
}

// joinPath puts a name behind a path of a source.
func joinPath(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}
