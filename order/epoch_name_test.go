package order

import (
	"math"
	"testing"
)

func TestEpochNames(t *testing.T) {
	for name, want := range map[string]uint64{
		"epoch-0000": 0, "epoch-0003": 3, "epoch-9999": 9999, "epoch-10000": 10000, "epoch-9223372036854775807": math.MaxInt64,
	} {
		if got, ok := ParseEpochName(name); !ok || got != want || EpochName(want) != name {
			t.Errorf("%s: %d, %v; and back: %s", name, got, ok, EpochName(want))
		}
	}
	for _, name := range []string{
		"", "epoch-", "epoch-0", "epoch-003", "epoch-00003", "epoch-+003", "epoch--003", "epoch-00a0", "Epoch-0003", "epoch-0003 ",
		"epoch-9223372036854775808", "epoch-99999999999999999999", "epoch-0x10", "epoch-१०००",
	} {
		if n, ok := ParseEpochName(name); ok {
			t.Errorf("%q is epoch %d", name, n)
		}
	}
}

func TestShardNames(t *testing.T) {
	for name, want := range map[string]int{"000000.tar": 0, "000012.tar": 12, "999999.tar": 999999, "1000000.tar": 1000000} {
		if got, table, ok := ParseShardName(name); !ok || table || got != want || ShardName(want, ShardSuffix) != name {
			t.Errorf("%s: %d, %v, %v", name, got, table, ok)
		}
	}
	if got, table, ok := ParseShardName("000012.tsv"); !ok || !table || got != 12 || ShardName(12, TableSuffix) != "000012.tsv" {
		t.Errorf("000012.tsv: %d, %v, %v", got, table, ok)
	}
	for _, name := range []string{"", ".tar", "000012", "12.tar", "0000012.tar", "000012.tar.tsv", "00001a.tar", "-00012.tar", "999999999.tar", "000012.TAR"} {
		if n, _, ok := ParseShardName(name); ok {
			t.Errorf("%q is shard %d", name, n)
		}
	}
}

// FuzzStreamNames: what is taken for a name is the name of its number.
func FuzzStreamNames(f *testing.F) {
	for _, name := range []string{"epoch-0000", "epoch-12345", "epoch-00012", "000012.tar", "1000000.tsv", "epoch-", ".tar", "0000000.tar"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if n, ok := ParseEpochName(name); ok && EpochName(n) != name {
			t.Errorf("%q is epoch %d, whose name is %q", name, n, EpochName(n))
		}
		n, table, ok := ParseShardName(name)
		suffix := ShardSuffix
		if table {
			suffix = TableSuffix
		}
		if ok && ShardName(n, suffix) != name {
			t.Errorf("%q is shard %d, whose name is %q", name, n, ShardName(n, suffix))
		}
	})
}
