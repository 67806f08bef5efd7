package fs

import "testing"

func grants(d *directReads, n int, known, mapped bool) (granted int) {
	for range n {
		if d.grant(known, mapped) {
			granted++
		}
	}
	return granted
}

func TestDirectReads(t *testing.T) {
	d := &directReads{possible: true}
	if got := grants(d, 10, false, false); got != 10 {
		t.Errorf("%d of 10 first opens are direct", got)
	}
	if got := grants(d, 10, true, false); got != 0 {
		t.Errorf("%d of 10 further opens are direct", got)
	}
	d.closed(4, 1<<20+4096) // as np.load reads
	d.closed(3, 2000)
	if got := grants(d, 10, false, false); got != 10 {
		t.Errorf("after large reads %d of 10 first opens are direct", got)
	}
	d.closed(256, 1<<20)
	if got := grants(d, directPauseOpens+10, false, false); got != 10 {
		t.Errorf("after small reads %d of %d first opens are direct, want 10", got, directPauseOpens+10)
	}
	for range directLosses * 10 {
		d.found(false)
		d.found(true)
	}
	if got := grants(d, 10, true, false); got != 0 {
		t.Errorf("%d of 10 further opens are direct where every other file has kept its pages", got)
	}
	for range directLosses {
		d.found(false)
	}
	if got := grants(d, 10, true, true); got != 0 {
		t.Errorf("%d of 10 opens of files that are mapped are direct: maps would lose their pages", got)
	}
	if got := grants(d, directAgainOpens+10, true, false); got != directAgainOpens {
		t.Errorf("where pages do not stay %d of %d further opens are direct, want %d", got, directAgainOpens+10, directAgainOpens)
	}
	impossible := &directReads{}
	for range directLosses {
		impossible.found(false)
	}
	if got := grants(impossible, 10, false, false) + grants(impossible, 10, true, false); got != 0 {
		t.Errorf("%d opens are direct where maps do not work on such handles", got)
	}
}
