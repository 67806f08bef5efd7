package pack

import (
	"fmt"
	"sort"

	"prismfs/pcr"
)

// imageHolders tells which record of an earlier run holds an image of the plan.
type imageHolders struct {
	records []string
	of      []int32 // by place in the plan: 1 + that in records, 0 for none
}

// clearImages takes away the records of an earlier run that hold any of the
// sources from start to end: the record of this name is about to have them.
// Others stay, since they may turn out to be as they should.
func (p *pcrPacker) clearImages(name string, start, end int) error {
	if p.holders == nil {
		if err := p.findHolders(name); err != nil {
			return err
		}
	}
	for _, holder := range p.holders.of[start:end] {
		if holder == 0 {
			continue
		}
		if err := p.clearRecord(p.holders.records[holder-1], name); err != nil {
			return err
		}
	}
	return nil
}

// clearRecord takes a record of an earlier run away, unless it is the one that is
// about to be replaced, or has been already.
func (p *pcrPacker) clearRecord(name, current string) error {
	number, _ := pcr.RecordNumber(name)
	if name == current || p.cleared[name] || number < uint64(len(p.entries)) {
		return nil
	}
	if err := p.target.root.Remove(name); err != nil {
		return fmt.Errorf("removing a record of an earlier run: %w", err)
	}
	p.cleared[name] = true
	return nil
}

// findHolders looks into the records of this dataset that are there from the
// record current on. Those with images that the plan does not have, or that an
// earlier one of them has, are taken away at once. Damaged ones, and those of
// others, are for whoever comes to their number.
func (p *pcrPacker) findHolders(current string) error {
	p.holders = &imageHolders{of: make([]int32, len(p.plan.sources))}
	entries, err := p.target.readDir(".")
	if err != nil {
		return fmt.Errorf("looking for records of an earlier run: %w", err)
	}
	find := p.plan.finder()
	for _, e := range entries {
		number, ok := pcr.RecordNumber(e.Name())
		if !ok || !pcr.IsRecordName(e.Name()) || number < uint64(len(p.entries)) {
			continue
		}
		r, err := p.target.openRecord(e.Name(), e.Name())
		switch {
		case contentError(err):
			continue
		case err != nil:
			return fmt.Errorf("reading an earlier record: %w", err)
		}
		r.Close()
		if !p.isOurs(r) || p.hasClasses(r) && p.holders.add(r, find) {
			continue
		}
		if err := p.clearRecord(e.Name(), current); err != nil {
			return err
		}
	}
	return nil
}

// hasClasses tells whether all classes of a record have the same labels in the plan.
func (p *pcrPacker) hasClasses(r *openRecord) bool {
	for _, c := range r.meta.Extension.Classes {
		if c.Label < 0 || int(c.Label) >= len(p.plan.classes) || p.plan.classes[c.Label] != c.Name {
			return false
		}
	}
	return r.meta.Extension.Classes != nil
}

// add enters the images of a record, and returns false if it has some that are
// not in the plan, or in a record that was entered before.
func (h *imageHolders) add(r *openRecord, find func(pcrSource) (int, bool)) bool {
	names := r.meta.Extension.Names
	if len(names) != len(r.meta.Labels) {
		return false
	}
	places := make([]int, 0, len(names))
	for i, name := range names {
		at, ok := find(pcrSource{r.meta.Labels[i], name})
		if !ok || h.of[at] != 0 {
			return false
		}
		places = append(places, at)
	}
	h.records = append(h.records, r.entry.Name)
	for _, at := range places {
		h.of[at] = int32(len(h.records))
	}
	return true
}

// finder returns a function that finds the place of a source in the plan.
func (p *pcrPlan) finder() func(pcrSource) (int, bool) {
	order := make([]int32, len(p.sources))
	for i := range order {
		order[i] = int32(i)
	}
	sort.Slice(order, func(i, j int) bool { return p.sources[order[i]].less(p.sources[order[j]]) })
	return func(s pcrSource) (int, bool) {
		i := sort.Search(len(order), func(i int) bool { return !p.sources[order[i]].less(s) })
		if i == len(order) || p.sources[order[i]] != s {
			return 0, false
		}
		return int(order[i]), true
	}
}

// less orders sources by class and name.
func (s pcrSource) less(o pcrSource) bool {
	return s.label < o.label || s.label == o.label && s.name < o.name
}
