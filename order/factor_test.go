package order

import "testing"

func TestParseFactor(t *testing.T) {
	for text, want := range map[string]Factor{
		"1": 100, "2": 200, "1.5": 150, "1.50": 150, "1.05": 105, "2.25": 225, "10": 1000, "99.99": 9999, "100": 10000, "100.0": 10000,
	} {
		if got, ok := ParseFactor(text); !ok || got != want {
			t.Errorf("ParseFactor(%q) = %d, %v; want %d", text, got, ok, want)
		}
	}
	for _, text := range []string{
		"", "0", "0.5", "01", "1.", ".5", "1.555", "100.01", "101", "1000", "-1", "+1", "1e2", "1,5", "1.5.", "1.-5", "1.+5", "٢", "1 ", "2x",
	} {
		if got, ok := ParseFactor(text); ok {
			t.Errorf("ParseFactor(%q) = %d, want none", text, got)
		}
	}
}

func TestFactorStringParses(t *testing.T) {
	for f := NoEchoes; f <= MaxFactor; f++ {
		if got, ok := ParseFactor(f.String()); !ok || got != f {
			t.Fatalf("ParseFactor(%q) = %d, %v; want %d", f.String(), got, ok, f)
		}
	}
	if got := Factor(150).String(); got != "1.5" {
		t.Errorf("Factor(150) is written %q", got)
	}
	if got := Factor(205).String(); got != "2.05" {
		t.Errorf("Factor(205) is written %q", got)
	}
}
