package cache

import "testing"

func TestSetBudget(t *testing.T) {
	const size = 9000
	charge := (size+pageBytes-1)/pageBytes*pageBytes + overheadBytes
	c := newCache(t, Options{Budget: 10 * charge, PinAllowance: charge, Medium: NewMemory(warmBytes)})
	pinned := mustGet(t, c, 0, size)
	for key := 1; key < 10; key++ {
		pass(t, c, key, size)
	}
	c.SetBudget(4 * charge)
	if s := c.Stats(); s.Bytes != 4*charge || s.Budget != 4*charge || s.Limit != 11*charge {
		t.Errorf("after shrinking to 4 buffers: %+v", s)
	}
	if !c.Holds(0) || !c.Holds(9) || c.Holds(1) || c.Holds(6) {
		t.Error("shrinking did not keep the pinned and the newest buffers")
	}
	c.SetBudget(1)
	if s := c.Stats(); s.Bytes != charge || s.Budget != pageBytes {
		t.Errorf("after shrinking to nothing: %+v", s)
	}
	other := mustGet(t, c, 20, size) // memory in use is not a cache
	other.Unpin()
	if c.Holds(20) {
		t.Error("an idle buffer stays beyond the budget")
	}
	pinned.Unpin()
	c.SetBudget(1 << 50)
	if s := c.Stats(); s.Budget != 10*charge || s.Bytes != 0 {
		t.Errorf("after growing again: %+v", s)
	}
	pass(t, c, 21, size)
	if !c.Holds(21) {
		t.Error("the grown cache keeps nothing")
	}
	mustAddUp(t, c)
}
