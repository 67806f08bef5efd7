package fs

import "testing"

// reader acts as a program that lists folders and looks some of the names up.
type wishReader struct {
	t  *testing.T
	w  *wishes
	id uint32
}

func (r wishReader) lists(folder uint64, names int) (told bool) {
	told = r.w.attributes(r.id)
	r.w.listed(r.id, folder, names, told)
	return told
}

func (r wishReader) looksUp(folder uint64, names int) {
	for range names {
		r.w.lookedUp(r.id, folder)
	}
}

func newWishReader(t *testing.T) wishReader {
	w, err := newWishes()
	if err != nil {
		t.Fatal(err)
	}
	return wishReader{t, w, 1}
}

// du reads folders whole, and stats what is in them then.
func TestWishesOfWhoStatsAll(t *testing.T) {
	r := newWishReader(t)
	told := 0
	for folder := range uint64(100) {
		if r.lists(folder, 200) {
			told++
			r.lists(folder, 100)
			continue
		}
		r.lists(folder, 100)
		r.looksUp(folder, 300)
	}
	// Of toldForEach + 1 folders one has to be looked up.
	if told < 95 || told > 97 {
		t.Errorf("attributes are told of %d folders of 100", told)
	}
}

// ls -l stats the names of an answer before it asks for the next ones.
func TestWishesInOneFolder(t *testing.T) {
	r := newWishReader(t)
	bare := 0
	for range 1000 {
		if !r.lists(5, 195) {
			bare++
			r.looksUp(5, 195)
		}
	}
	if bare > 1000/toldForEach+1 {
		t.Errorf("%d answers of 1000 have no attributes", bare)
	}
}

// Who only lists, or opens a few files, or those of another folder, is told nothing.
func TestWishesOfOthers(t *testing.T) {
	for name, looks := range map[string]func(r wishReader, folder uint64){
		"find -type f":            func(wishReader, uint64) {},
		"a few":                   func(r wishReader, folder uint64) { r.looksUp(folder, 20) },
		"of a folder not listed":  func(r wishReader, folder uint64) { r.looksUp(folder+1000, 300) },
		"the folder in the other": func(r wishReader, folder uint64) { r.looksUp(0, 1) },
	} {
		r := newWishReader(t)
		for folder := range uint64(50) {
			if r.lists(folder, 300) {
				t.Errorf("%s: attributes are told of folder %d", name, folder)
			}
			looks(r, folder)
		}
	}
}

// Readers are told apart, and what is told in vain is bounded.
func TestWishesEnd(t *testing.T) {
	r := newWishReader(t)
	r.lists(1, 100)
	r.looksUp(1, 100)
	if other := (wishReader{t, r.w, 2}); other.lists(1, 100) {
		t.Error("attributes are told to another reader")
	}
	told := 0
	for folder := range uint64(10_000) {
		if r.lists(folder, 100) {
			told += 100
		}
	}
	if told != toldForEach*100 {
		t.Errorf("%d names are told in vain, want %d", told, toldForEach*100)
	}
	for id := range uint32(2 * wishesOf) {
		wishReader{t, r.w, id}.lists(1, 1)
	}
	if n := r.w.readers.Len(); n != wishesOf {
		t.Errorf("%d readers are remembered, want %d", n, wishesOf)
	}
}
