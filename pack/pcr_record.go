package pack

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"golang.org/x/sys/unix"

	"prismfs/pcr"
)

// writeBytes is the buffer behind a record that is being written.
const writeBytes = 1 << 20

// writeRecord writes the record of these images, which come from the sources
// start to end, and counts them.
func (p *pcrPacker) writeRecord(name string, start, end int, sources []made) error {
	images := make([]pcr.Image, 0, len(sources))
	stamps := make([]stamp, 0, len(sources))
	info := pcr.RecordInfo{DatasetID: p.id, Classes: p.plan.classList()}
	for _, m := range sources {
		stamps = append(stamps, m.stamp)
		if m.reason != "" {
			continue
		}
		images = append(images, m.Image)
		if m.encoded {
			info.Quality = p.opt.Quality
		}
	}
	info.SourceHash = p.plan.sourceHash(p.plan.sources[start:end], stamps, p.opt)
	if err := p.dropIndex(); err != nil {
		return err
	}
	if err := p.clearImages(name, start, end); err != nil {
		return err
	}
	entry, replaced, err := p.writeImages(name, images, info)
	if err != nil {
		return err
	}
	p.count(entry, false)
	for _, m := range sources {
		p.countImage(m, len(m.JPEG)-len(eoi), false, replaced)
	}
	return nil
}

// eoi is the marker that ends a JPEG, which records do not store.
var eoi = []byte{0xFF, 0xD9}

// writeImages writes a record, reads it back and gives it its name.
func (p *pcrPacker) writeImages(name string, images []pcr.Image, info pcr.RecordInfo) (entry pcr.IndexEntry, replaced bool, err error) {
	out, err := p.target.create("")
	if err != nil {
		return entry, false, fmt.Errorf("writing to the destination: %w", err)
	}
	defer out.discard()
	buffered := bufio.NewWriterSize(out, writeBytes)
	entry, err = pcr.WriteRecord(buffered, images, info)
	if err == nil {
		err = buffered.Flush()
	}
	if err != nil {
		return entry, false, fmt.Errorf("writing %s to the destination: %w", name, err)
	}
	entry.Name = name
	if err := p.checkRecord(out.temp, entry, images); err != nil {
		return entry, false, fmt.Errorf("a fault in prismfs, or of the disk: %s, read back, is not what was written: %w", name, err)
	}
	_, err = p.target.root.Lstat(name)
	replaced = err == nil || p.cleared[name]
	delete(p.cleared, name)
	if err := p.name(out, name); err != nil {
		return entry, false, fmt.Errorf("writing %s to the destination: %w", name, err)
	}
	return entry, replaced, nil
}

// name gives a finished file of the dataset its name and the permissions of the
// marker, which are those of any new file of this user.
func (p *pcrPacker) name(out *pending, name string) error {
	like, err := p.target.marker.Stat()
	if err != nil {
		return err
	}
	if err := out.Chmod(like.Mode().Perm()); err != nil {
		return err
	}
	if err := out.Close(); err != nil {
		return err
	}
	if err := p.target.root.Rename(out.temp, name); err != nil {
		return err
	}
	out.temp = ""
	return nil
}

// checkRecord reads a record as a reader without index does, and compares every
// byte of every image.
func (p *pcrPacker) checkRecord(path string, entry pcr.IndexEntry, images []pcr.Image) error {
	r, err := p.target.openRecord(path, entry.Name)
	if err != nil {
		return err
	}
	defer r.Close()
	if !slices.Equal(r.entry.Lengths, entry.Lengths) {
		return errors.New("its parts have other lengths")
	}
	if len(r.meta.Labels) != len(images) || r.meta.Extension == nil {
		return fmt.Errorf("it has %d labels for %d images", len(r.meta.Labels), len(images))
	}
	taken := make([]int, len(images)) // bytes compared, by image
	err = r.groups(func(_ int, group []byte, spans []pcr.Span) error {
		for i, s := range spans {
			rest := images[i].JPEG[taken[i]:]
			if int64(len(rest)) < s.Len || !bytes.Equal(rest[:s.Len], group[s.Off:s.Off+s.Len]) {
				return fmt.Errorf("image %d has other bytes", i)
			}
			taken[i] += int(s.Len)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i, image := range images {
		if image.Label != r.meta.Labels[i] || image.Name != r.meta.Extension.Names[i] {
			return fmt.Errorf("image %d has another label or name", i)
		}
		if !bytes.HasPrefix(image.JPEG[taken[i]:], eoi) {
			return fmt.Errorf("image %d lacks bytes", i)
		}
	}
	return nil
}

// An openRecord is a record of the target, read without an index.
type openRecord struct {
	io.ReaderAt
	io.Closer
	entry pcr.IndexEntry
	meta  *pcr.Metadata
	spans [][]pcr.Span // [group][image]
}

// openRecord opens the record of this name in the file at path; errors that wrap
// those of package pcr are about its content.
func (t *target) openRecord(path, name string) (*openRecord, error) {
	f, err := t.root.Open(path)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is no regular file")
	}
	r := &openRecord{ReaderAt: f, Closer: f}
	if err == nil {
		r.entry, r.spans, err = pcr.RebuildIndexEntry(f, info.Size(), name)
	}
	if err == nil {
		r.meta, err = r.metadata()
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return r, nil
}

func (r *openRecord) metadata() (*pcr.Metadata, error) {
	if r.entry.Lengths[0] > pcr.MaxMetadataBytes {
		return nil, pcr.ErrTooLarge
	}
	data := make([]byte, r.entry.Lengths[0])
	if _, err := r.ReadAt(data, 0); err != nil {
		return nil, err
	}
	return pcr.ParseMetadata(data)
}

// groups calls visit with the bytes of every group, from 1 on, and the places of
// the images in it.
func (r *openRecord) groups(visit func(g int, group []byte, spans []pcr.Span) error) error {
	var group []byte
	for g := 1; g <= r.entry.Levels(); g++ {
		size := r.entry.Lengths[g]
		group = slices.Grow(group[:0], int(size))[:size]
		if _, err := r.ReadAt(group, r.entry.GroupOffset(g)); err != nil && !(err == io.EOF && g == r.entry.Levels()) {
			return err
		}
		if err := visit(g, group, r.spans[g-1]); err != nil {
			return err
		}
	}
	return nil
}

// checksums compares every image's bytes with the checksums of the extension.
func (r *openRecord) checksums() error {
	x := r.meta.Extension
	if len(x.Checksums) != r.entry.Levels() {
		return errors.New("it has no checksums")
	}
	return r.groups(func(g int, group []byte, spans []pcr.Span) error {
		for i, s := range spans {
			if pcr.Checksum(group[s.Off:s.Off+s.Len]) != x.Checksums[g-1][i] {
				return fmt.Errorf("image %d does not match its checksum in group %d", i, g)
			}
		}
		return nil
	})
}

// dropIndex takes the index of an earlier run away, since records change.
func (p *pcrPacker) dropIndex() error {
	if p.indexGone {
		return nil
	}
	if err := p.target.root.Remove(pcr.IndexNamePB); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing the index of an earlier run: %w", err)
	}
	p.indexGone = true
	return nil
}

// writeIndex writes the index, when all records are on the disk.
func (p *pcrPacker) writeIndex() error {
	if len(p.entries) == 0 {
		return p.dropIndex()
	}
	index, err := pcr.AppendIndex(nil, p.entries)
	if err != nil {
		return fmt.Errorf("making the index: %w", err)
	}
	if there, err := p.target.root.ReadFile(pcr.IndexNamePB); err == nil && bytes.Equal(there, index) {
		return nil
	}
	out, err := p.target.create("")
	if err != nil {
		return fmt.Errorf("writing the index: %w", err)
	}
	defer out.discard()
	if _, err := out.Write(index); err != nil {
		return fmt.Errorf("writing the index: %w", err)
	}
	if err := unix.Syncfs(int(p.target.marker.Fd())); err != nil {
		return fmt.Errorf("bringing the records to the disk: %w", err)
	}
	if err := p.name(out, pcr.IndexNamePB); err != nil {
		return fmt.Errorf("writing the index: %w", err)
	}
	return nil
}

// count adds a record to the dataset.
func (p *pcrPacker) count(entry pcr.IndexEntry, kept bool) {
	p.entries = append(p.entries, entry)
	t := p.summary.PCR
	t.Records++
	t.RecordBytes += entry.Size()
	if kept {
		t.RecordsKept++
	}
}

// countImage counts a source that has gone into a record, or was refused on the
// way; size is that of its bytes in the record.
func (p *pcrPacker) countImage(m made, size int, already, replaced bool) {
	source := p.plan.sources[m.at]
	if m.reason != "" {
		p.summary.record(p.plan.path(source), refusal(m.reason))
		return
	}
	p.populated[source.label] = true
	if m.encoded {
		p.summary.PCR.Encoded++
	}
	if m.lostAlpha {
		p.summary.PCR.AlphaLost++
	}
	p.summary.record(p.plan.path(source), outcome{
		fate: converted, already: already, replaced: replaced, format: string(m.format), in: m.stamp.size, out: int64(size),
	})
}
