package fs

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"prismfs/order"
	"prismfs/tensor"
)

// readingTerms are the words of a view that speak of the order of reading:
// echoes and streams. They belong to folders. The zero value is none; of the
// numbers that may be 0, one more is kept.
type readingTerms struct {
	echo   order.Factor
	stream bool
	buffer int
	seed   uint64 // one more than it is
	shard  int
	ranks  int
	rank   int
}

// The words. Each but stream has a number behind it.
const (
	echoWord   = "echo"
	streamWord = "stream"
	bufferWord = "buffer"
	seedWord   = "seed"
	shardWord  = "shard"
	rankWord   = "rank"
)

func (r readingTerms) any() bool { return r != readingTerms{} }

// add takes one word; errNoTerm means that it is none of these. A number that
// is out of bounds makes a word none, as it does with fidelities.
func (r *readingTerms) add(word string) error {
	kind, set := r.read(word)
	if set == nil {
		return errNoTerm
	}
	if set() {
		return fmt.Errorf("the term %s stands twice (%s is the second)", kind, word)
	}
	return nil
}

// read returns of which kind a word is, and what sets it and reports whether it
// was set before: nil where the word is none of these.
func (r *readingTerms) read(word string) (kind string, set func() bool) {
	kind = strings.TrimRight(word, "0123456789.")
	number := word[len(kind):]
	var ok bool
	switch {
	case word == streamWord:
		ok, set = true, func() bool { return swap(&r.stream, true) }
	case kind == echoWord:
		var f order.Factor
		f, ok = order.ParseFactor(number)
		set = func() bool { return swap(&r.echo, f) }
	case kind == bufferWord:
		var n uint64
		n, ok = parseCount(number, 1, order.MaxBuffer)
		set = func() bool { return swap(&r.buffer, int(n)) }
	case kind == seedWord:
		var n uint64
		n, ok = parseCount(number, 0, math.MaxInt64)
		set = func() bool { return swap(&r.seed, n+1) }
	case kind == shardWord:
		var n uint64
		n, ok = parseCount(number, 1, order.MaxShard)
		set = func() bool { return swap(&r.shard, int(n)) }
	case strings.HasPrefix(word, rankWord):
		kind = rankWord
		var rank, ranks int
		rank, ranks, ok = parseRank(word[len(rankWord):])
		set = func() bool { r.rank = rank; return swap(&r.ranks, ranks) }
	}
	if !ok {
		return "", nil
	}
	return kind, set
}

// swap sets a value and reports whether it was set before.
func swap[T comparable](at *T, to T) bool {
	var none T
	was := *at
	*at = to
	return was != none
}

// parseCount reads a whole number without leading zeros.
func parseCount(text string, least, most uint64) (uint64, bool) {
	if text == "" || text[0] < '0' || text[0] > '9' || text[0] == '0' && text != "0" {
		return 0, false
	}
	n, err := strconv.ParseUint(text, 10, 64)
	return n, err == nil && n >= least && n <= most
}

// readingRanges says which numbers the words take.
var readingRanges = map[string]string{
	echoWord:   fmt.Sprintf("echoE takes E from %v to %v, with two decimals at most", order.NoEchoes, order.MaxFactor),
	bufferWord: fmt.Sprintf("bufferN takes N from 1 to %d", order.MaxBuffer),
	seedWord:   fmt.Sprintf("seedN takes N from 0 to %d, without zeros before it", math.MaxInt64),
	shardWord:  fmt.Sprintf("shardN takes N from 1 to %d images", order.MaxShard),
	rankWord:   fmt.Sprintf("rankRofW takes W from 1 to %d, and R from 0 to W-1", order.MaxRanks),
}

// parseRank reads RofW.
func parseRank(text string) (rank, ranks int, ok bool) {
	first, second, _ := strings.Cut(text, "of")
	w, ok := parseCount(second, 1, order.MaxRanks)
	if !ok {
		return 0, 0, false
	}
	r, ok := parseCount(first, 0, w-1)
	return int(r), int(w), ok
}

var (
	errNeedsEcho   = errors.New("seedN and bufferN belong to echoE or stream, which the view does not have")
	errNeedsStream = errors.New("shardN and rankRofW belong to stream, which the view does not have")
)

// apply sets in v what the terms say, which a folder of the source carries.
func (r readingTerms) apply(v *View, folder string) error {
	switch {
	case !r.any():
		return nil
	case !r.stream && (r.shard != 0 || r.ranks != 0):
		return errNeedsStream
	case !r.stream && r.echo == 0:
		return errNeedsEcho
	}
	seed := max(r.seed, 1) - 1
	if !r.stream {
		if v.Form.Container == tensor.L3 {
			return errors.New("echoes save decoding, and l3 shows what is stored")
		}
		v.Echo, v.Stream = order.EchoView{Folder: folder, Factor: r.echo, Buffer: r.buffer, Seed: seed}, order.StreamView{}
		return nil
	}
	s := order.StreamView{
		Folder: folder, Seed: seed, Factor: order.NoEchoes, Buffer: r.buffer,
		Shard: order.DefaultShard, Rank: r.rank, Ranks: max(r.ranks, 1),
	}
	if r.echo != 0 {
		s.Factor = r.echo
	}
	if r.shard != 0 {
		s.Shard = r.shard
	}
	v.Echo, v.Stream = order.EchoView{}, s
	return nil
}

// readingOrder returns the terms that say what v says.
func (v View) readingOrder() readingTerms {
	switch {
	case v.Stream.Shard != 0:
		s := v.Stream
		return readingTerms{
			stream: true, echo: s.Factor, buffer: s.Buffer, seed: s.Seed + 1, shard: s.Shard, rank: s.Rank, ranks: s.Ranks,
		}
	case v.Echo.Factor != 0:
		return readingTerms{echo: v.Echo.Factor, buffer: v.Echo.Buffer, seed: v.Echo.Seed + 1}
	}
	return readingTerms{}
}

// words writes the terms, those that stand for themselves left out.
func (r readingTerms) words() []string {
	var words []string
	add := func(given bool, format string, args ...any) {
		if given {
			words = append(words, fmt.Sprintf(format, args...))
		}
	}
	add(r.stream, streamWord)
	add(r.echo != 0 && !(r.stream && r.echo == order.NoEchoes), echoWord+"%v", r.echo)
	add(r.seed > 1, seedWord+"%d", r.seed-1)
	add(r.buffer != 0, bufferWord+"%d", r.buffer)
	add(r.shard != 0 && r.shard != order.DefaultShard, shardWord+"%d", r.shard)
	add(r.ranks > 1, rankWord+"%dof%d", r.rank, r.ranks)
	return words
}
