package order

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// The names of what a stream consists of. Numbers have leading zeros up to so many
// digits, so that names sort as numbers do, and beyond that none: each number has
// one name.
const (
	epochPrefix = "epoch-"
	epochDigits = 4
	shardDigits = 6

	// ShardSuffix ends the names of shards, TableSuffix those of the tables that
	// say what is in them.
	ShardSuffix = ".tar"
	TableSuffix = ".tsv"
)

// EpochName returns the name of the folder of an epoch.
func EpochName(epoch uint64) string { return fmt.Sprintf("%s%0*d", epochPrefix, epochDigits, epoch) }

// ParseEpochName returns the number of the epoch that a folder's name is of.
func ParseEpochName(name string) (uint64, bool) {
	digits, ok := strings.CutPrefix(name, epochPrefix)
	if !ok {
		return 0, false
	}
	return parsePadded(digits, epochDigits, math.MaxInt64)
}

// ShardName returns the name of a shard of an epoch, or of its table.
func ShardName(shard int, suffix string) string {
	return fmt.Sprintf("%0*d%s", shardDigits, shard, suffix)
}

// ParseShardName returns the number of the shard that a file's name is of, and
// whether the name is that of its table.
func ParseShardName(name string) (shard int, table, ok bool) {
	digits, isShard := strings.CutSuffix(name, ShardSuffix)
	if !isShard {
		if digits, table = strings.CutSuffix(name, TableSuffix); !table {
			return 0, false, false
		}
	}
	n, ok := parsePadded(digits, shardDigits, MaxItems)
	return int(n), table && ok, ok
}

// parsePadded reads a number that is padded with zeros to a number of digits.
func parsePadded(text string, digits int, most uint64) (uint64, bool) {
	if len(text) < digits || len(text) > digits && text[0] == '0' {
		return 0, false
	}
	for _, c := range []byte(text) {
		if c < '0' || c > '9' {
			return 0, false
		}
	}
	n, err := strconv.ParseUint(text, 10, 64)
	return n, err == nil && n <= most
}
