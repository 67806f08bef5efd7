package fs

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"syscall"
	"testing"

	"prismfs/cache"
	"prismfs/dataset"
	"prismfs/gpudecode"
	"prismfs/internal/jpeg"
	"prismfs/l3"
	"prismfs/order"
	"prismfs/pcr"
)

// TestShardOfStream: the shards of an epoch are tar files whose members are those
// that their tables name, at the places that they name.
func TestShardOfStream(t *testing.T) {
	dir := t.TempDir()
	writeFiles(t, dir, map[string][]byte{
		"a/1.l3": labelled(t, "", 0), "a/2.l3": labelled(t, "", 0), "b/tab\tline\n\\.l3": labelled(t, "", 0),
		"b/2.l3": labelled(t, "", 0), "top.l3": labelled(t, "", 0),
	})
	m, v := streamMount(t, openLocal(t, dir)), streamView("")
	v.Stream.Factor, v.Stream.Buffer, v.Stream.Rank, v.Stream.Ranks, v.Stream.Shard = 300, 4, 1, 2, 4
	shards, err := m.streams.shards(v)
	if err != nil || shards != 3 { // 3 samples each
		t.Fatalf("%d shards: %v", shards, err)
	}
	key := 1
	for number := range shards {
		x, err := m.streams.shard(v, 12, number)
		if err != nil {
			t.Fatal(err)
		}
		body := make([]byte, x.plan.Size())
		if _, err := x.plan.ReadAt(body, 0, func(int, []byte, int64) error { return nil }); err != nil {
			t.Fatal(err)
		}
		rows := csv.NewReader(bytes.NewReader(x.table()))
		rows.Comma, rows.LazyQuotes = '\t', true
		lines, err := rows.ReadAll()
		if err != nil || len(lines) != 1+x.plan.Len() {
			t.Fatalf("%d lines of a table for %d samples: %v", len(lines), x.plan.Len(), err)
		}
		r := tar.NewReader(bytes.NewReader(body))
		for _, line := range lines[1:] {
			h, err := r.Next()
			if err != nil || h.Name != line[0]+".npy" || fmt.Sprint(h.Size) != line[6] || line[0] != fmt.Sprintf("%09d", key) {
				t.Fatalf("%v: %+v, %v", line, h, err)
			}
			key += 2
			if line[2] == "" {
				continue
			}
			h, err = r.Next()
			if label, _ := io.ReadAll(r); err != nil || h.Name != line[0]+".cls" || string(label) != line[2] {
				t.Fatalf("%v: %+v, %v, label %s", line, h, err, label)
			}
		}
	}
	whole, _ := m.streams.catalogue(v)
	if path := whole.path(3); tableEscapes.Replace(path) != `b/tab\tline\n\\.l3` {
		t.Errorf("in a table, %q stands as %q", path, tableEscapes.Replace(path))
	}
	if x, err := m.streams.shard(v, 12, shards); x != nil || err != nil {
		t.Errorf("a shard behind the last one: %v, %v", x, err)
	}
}

// TestStreamFileIsOneContent: a node whose stream has changed is stale.
func TestStreamFileIsOneContent(t *testing.T) {
	dir := t.TempDir()
	writeFiles(t, dir, map[string][]byte{"a/1.l3": labelled(t, "", 0)})
	m, v := streamMount(t, openLocal(t, dir)), streamView("")
	c, err := m.streams.catalogue(v)
	if err != nil {
		t.Fatal(err)
	}
	n := streamFile{m: m, view: v, written: "+stream/epoch-0000/000000.tar", fingerprint: c.fingerprint}
	if s, err := n.layout(); err != nil || s == nil || n.unchanged() != nil {
		t.Fatalf("as it was: %v", err)
	}
	gen := n.generation()
	writeFiles(t, dir, map[string][]byte{"a/2.l3": labelled(t, "", 0)})
	m.streams.outdated(v)
	if _, err := n.layout(); !errors.Is(err, dataset.ErrChanged) {
		t.Errorf("after a change: %v", err)
	}
	if err := n.unchanged(); !errors.Is(err, dataset.ErrChanged) {
		t.Errorf("after a change: %v", err)
	}
	later, _ := m.streams.catalogue(v)
	n.fingerprint = later.fingerprint
	if n.generation() == gen {
		t.Error("another content has the same generation")
	}
}

func TestIsDamage(t *testing.T) {
	wrap := func(err error) error { return fmt.Errorf("decoding: %w", err) }
	for _, err := range []error{l3.ErrNotL3, l3.ErrCorrupt, l3.ErrTruncated, pcr.ErrDamaged, jpeg.ErrDamaged, jpeg.ErrTruncated, gpudecode.ErrShape} {
		if !isDamage(wrap(err)) {
			t.Errorf("%v is no damage", err)
		}
	}
	for _, err := range []error{
		nil, syscall.EIO, syscall.ETIMEDOUT, dataset.ErrChanged, cache.ErrNoSpace, cache.ErrClosed, gpudecode.ErrClosed, io.ErrUnexpectedEOF,
		context.Canceled, errors.New("anything"), errors.Join(l3.ErrTruncated, syscall.EIO), errors.Join(l3.ErrCorrupt, dataset.ErrChanged),
	} {
		if isDamage(wrap(err)) {
			t.Errorf("%v is damage", err)
		}
	}
}

// TestDamageText: it is one text, whatever pieces it is read in.
func TestDamageText(t *testing.T) {
	whole := bytes.Repeat([]byte{0xff}, 300)
	damageText(whole, 0, "a/b.l3")
	line, zeros, ok := bytes.Cut(whole, []byte("\n"))
	if !ok || !strings.Contains(string(line), "a/b.l3 is damaged") || slices.Max(zeros) != 0 {
		t.Fatalf("%q", whole)
	}
	for _, n := range []int{1, 7, 299} {
		var got []byte
		for at := 0; at < len(whole); at += n {
			piece := bytes.Repeat([]byte{0xff}, min(n, len(whole)-at))
			damageText(piece, int64(at), "a/b.l3")
			got = append(got, piece...)
		}
		if !bytes.Equal(got, whole) {
			t.Errorf("in pieces of %d bytes: %q", n, got)
		}
	}
}

// TestVerdicts: an item is right or damaged, for ever.
func TestVerdicts(t *testing.T) {
	var v verdicts
	if !v.pass(3, 100) || v.condemn(3) || v.isDamaged(3) || !v.pass(3, 100) {
		t.Error("an item that was right was found damaged")
	}
	if !v.condemn(64) || !v.isDamaged(64) || v.pass(64, 100) || !v.condemn(64) {
		t.Error("an item that was damaged was found right")
	}
	if v.isDamaged(99) || !v.pass(99, 100) {
		t.Error("an item is damaged of which nothing is known")
	}
}

// TestWhoIsInOrder: one who reads in order is, who goes from header to header or
// jumps is not.
func TestWhoIsInOrder(t *testing.T) {
	const images, bytes = 200, 150_000
	dir := t.TempDir()
	files := map[string][]byte{}
	for i := range images {
		files[fmt.Sprintf("%03d.l3", i)] = labelled(t, "", 0)
	}
	writeFiles(t, dir, files)
	m, v := streamMount(t, openLocal(t, dir)), streamView("")
	v.Stream.Shard = images
	c, err := m.streams.catalogue(v)
	if err != nil {
		t.Fatal(err)
	}
	for i := range c.samples {
		c.samples[i].size = bytes
	}
	x, err := m.streams.shard(v, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	// run reads pieces at places and returns whether the reader is in order then.
	run := func(length int64, places ...int64) bool {
		f := m.streams.follow(x, 0)
		f.ahead = order.NewLookahead(images, order.LookaheadOptions{
			Make:   func(int64) (int64, bool, error) { return 1, true, nil },
			Flight: func() int { return 1 }, Bytes: func() int64 { return 10 },
		})
		for _, off := range places {
			f.saw(off, length)
		}
		m.streams.leave(f)
		return f.inOrder
	}
	steps := func(from, step int64, n int) (places []int64) {
		for i := range n {
			places = append(places, from+int64(i)*step)
		}
		return places
	}
	swapped := steps(0, 1<<20, 8)
	for i := 0; i < len(swapped); i += 2 {
		swapped[i], swapped[i+1] = swapped[i+1], swapped[i]
	}
	for _, c := range []struct {
		what   string
		length int64
		places []int64
		want   bool
	}{
		{"from the beginning", 128 << 10, steps(0, 128<<10, 10), true},
		{"from the middle", 1 << 20, steps(x.plan.Start(60), 1<<20, 4), true},
		{"requests that overtake each other", 1 << 20, swapped, true},
		{"one large read", 4 << 20, []int64{0}, true},
		{"what the kernel reads ahead at the beginning", 128 << 10, steps(0, 128<<10, 2), false},
		{"from header to header", 12 << 10, steps(0, x.plan.Start(1), images), false},
		{"every other image", bytes, steps(0, x.plan.Start(2), images/2), false},
		{"a jump", 128 << 10, append(steps(0, 128<<10, 10), 20<<20), false},
		{"a jump back", 256 << 10, append(steps(1<<20, 256<<10, 8), 0), false},
	} {
		if got := run(c.length, c.places...); got != c.want {
			t.Errorf("%s: in order %v", c.what, got)
		}
	}
	m.streams.close()
	if n := len(m.streams.following); n != 0 {
		t.Errorf("%d readers are followed after all have gone", n)
	}
}
