package plural

import "testing"

func TestOf(t *testing.T) {
	for n, want := range map[int64]string{0: "0 class folders", 1: "1 class folder", 2: "2 class folders", 1_000_000: "1000000 class folders"} {
		if got := Of(n, "class folder"); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	for word, want := range map[string]string{"class": "2 classes", "entry": "2 entries", "fidelity": "2 fidelities", "slow request": "2 slow requests", "byte": "2 bytes"} {
		if got := Of(2, word); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if Or(1, "is", "are")+Or(0, "is", "are")+Or(2, "is", "are") != "isareare" {
		t.Error("the wrong verb")
	}
}
