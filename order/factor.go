package order

import (
	"fmt"
	"strconv"
	"strings"
)

// Factor is how often what was decoded once is served in all, in hundredths:
// 250 is 2.5. 0 is none, which is not 1.
type Factor uint32

// The bounds of a factor.
const (
	NoEchoes  Factor = 100 // 1: every request is decoded
	MaxFactor        = 100 * NoEchoes
)

// ParseFactor reads a factor from 1 to 100 with up to two decimals, such as 2 or
// 1.5.
func ParseFactor(text string) (Factor, bool) {
	whole, decimals, hasPoint := strings.Cut(text, ".")
	if hasPoint && (decimals == "" || len(decimals) > 2) {
		return 0, false
	}
	if whole == "" || whole[0] == '0' || len(whole) > 3 {
		return 0, false
	}
	digits := whole + (decimals + "00")[:2]
	n, err := strconv.ParseUint(digits, 10, 32)
	if err != nil || strings.HasPrefix(digits, "+") || Factor(n) < NoEchoes || Factor(n) > MaxFactor {
		return 0, false
	}
	return Factor(n), true
}

// String writes the factor with no more decimals than it takes.
func (f Factor) String() string {
	whole, rest := f/NoEchoes, f%NoEchoes
	switch {
	case rest == 0:
		return strconv.Itoa(int(whole))
	case rest%10 == 0:
		return fmt.Sprintf("%d.%d", whole, rest/10)
	}
	return fmt.Sprintf("%d.%02d", whole, rest)
}

// EchoView is a folder whose images are each served several times for one
// decode. It names what such views share, so it is comparable.
type EchoView struct {
	Folder string // path in the source of the folder that carries the terms
	Factor Factor // 0 for no echo view
	Buffer int    // images that a class folder keeps for echoes; 0 is the default
	Seed   uint64
}

// StreamView is a folder whose images are written one after the other, as
// shards, in an order of each epoch.
type StreamView struct {
	Folder string // path in the source of the folder that carries the terms
	Seed   uint64
	Factor Factor // 100 without echoes
	Buffer int    // images over which the echoes of one are spread; 0 is the default
	Shard  int    // images a shard; 0 for no stream
	// Rank r of so many readers that share an epoch, from 0; without ranks
	// it is 0 of 1.
	Rank, Ranks int
}

// The bounds of what views may ask for.
const (
	MaxBuffer    = 1_000_000
	MaxShard     = 1_000_000
	MaxRanks     = 1 << 16
	DefaultShard = 1000
)
