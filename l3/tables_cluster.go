package l3

import (
	"math"
	"math/bits"
	"slices"
	"sync"
)

// This file makes table sets from statistics: contexts whose symbols are alike
// share a table.

// logTable has n·log2(n) of small n, which are most counts of a small image.
var logTable = sync.OnceValue(func() *[1 << 12]float64 {
	var t [1 << 12]float64
	for n := range t[1:] {
		t[n+1] = float64(n+1) * math.Log2(float64(n+1))
	}
	return &t
})

func nLogN(n uint32, t *[1 << 12]float64) float64 {
	if n < uint32(len(t)) {
		return t[n]
	}
	return float64(n) * math.Log2(float64(n))
}

// A cluster is contexts that share a table.
type cluster struct {
	counts [maxTokens]uint32
	total  uint32
	bits   float64 // of its symbols, and of its table
	class  int
}

// tokenTableBits is about what the frequency of a token that occurs takes in a
// section, beside the four bits of any token.
const tokenTableBits = 4

// measure sets the bits of c.
func (c *cluster) measure(tokens int, logs *[1 << 12]float64) {
	b := nLogN(c.total, logs) + float64(4*tokens)
	for _, n := range c.counts[:tokens] {
		if n > 0 {
			b += tokenTableBits - nLogN(n, logs)
		}
	}
	c.bits = b
}

// joined returns the bits that a and b take together.
func joined(a, b *cluster, tokens int, logs *[1 << 12]float64) float64 {
	sum := nLogN(a.total+b.total, logs) + float64(4*tokens)
	for i, n := range a.counts[:tokens] {
		if n += b.counts[i]; n > 0 {
			sum += tokenTableBits - nLogN(n, logs)
		}
	}
	return sum
}

func (c *cluster) add(o *cluster, tokens int, bits float64) {
	for i, n := range o.counts[:tokens] {
		c.counts[i] += n
	}
	c.total += o.total
	c.bits = bits
}

// A clustering merges clusters until they are few enough.
type clustering struct {
	tokens int
	logs   *[1 << 12]float64
	list   []cluster
	into   []int // what each cluster was merged into, itself if it is alive
	owner  []int // first cluster of each context, -1 for one that does not occur
}

// clusterTables makes a table set for symbols that were counted by context and
// token: len(counts) is the number of contexts. idCounts are those of predictor
// ids, nil if the shape has none. Tables are merged greedily, the pair first
// whose merging costs the fewest bits, the table's own among them.
func clusterTables(counts [][maxTokens]uint32, idCounts *[maxTokens]uint32, s *tableShape) *tableSet {
	c := clustering{tokens: s.tokens, logs: logTable(), owner: make([]int, s.contexts())}
	c.list = make([]cluster, 0, len(counts))
	for i := range counts {
		c.owner[i] = -1
		n := cluster{class: i / s.levels}
		for _, k := range counts[i][:s.tokens] {
			n.total += k
		}
		if n.total > 0 {
			n.counts = counts[i]
			n.measure(s.tokens, c.logs)
			c.owner[i] = len(c.list)
			c.into = append(c.into, len(c.list))
			c.list = append(c.list, n)
		}
	}
	c.mergePairs(c.mergeNeighbours(c.pairwise()), maxTables)

	t := &tableSet{shape: *s, contexts: make([]uint8, s.contexts())}
	numbers := make([]int, len(c.list)) // of the tables
	for i := range c.list {
		if c.into[i] == i {
			numbers[i] = t.count
			t.frequencies[t.count] = normalise(&c.list[i].counts, s)
			t.count++
		}
	}
	if t.count == 0 {
		t.frequencies[0] = normalise(new([maxTokens]uint32), s)
		t.count = 1
	}
	c.fillContexts(t, numbers)
	if s.ids {
		t.frequencies[tableOfID] = normalise(idCounts, s)
	}
	return t
}

// pairwise is how many clusters are left when every pair is considered, which takes
// time with their square: fewer in a small image, which is encoded in little time.
func (c *clustering) pairwise() int {
	symbols := 0
	for i := range c.list {
		symbols += int(c.list[i].total)
	}
	return min(64, max(20, symbols/256))
}

// merge merges cluster j into i; both together take so many bits.
func (c *clustering) merge(i, j int, bits float64) {
	c.list[i].add(&c.list[j], c.tokens, bits)
	c.into[j] = i
}

// mergeCost is how many bits more clusters i and j take if they are merged.
func (c *clustering) mergeCost(i, j int) float64 {
	a, b := &c.list[i], &c.list[j]
	return joined(a, b, c.tokens, c.logs) - a.bits - b.bits
}

// mergeNeighbours merges clusters of neighbouring levels, which are alike,
// until at most most are left, or no neighbours. It returns those that are left.
func (c *clustering) mergeNeighbours(most int) []int {
	left := make([]int, len(c.list))
	costs := make([]float64, len(c.list)) // of merging with the next one that is left
	cost := func(k int) float64 {
		if k+1 >= len(left) || c.list[left[k]].class != c.list[left[k+1]].class {
			return math.Inf(1)
		}
		return c.mergeCost(left[k], left[k+1])
	}
	for k := range left {
		left[k] = k
	}
	for k := range left {
		costs[k] = cost(k)
	}
	for len(left) > most {
		k := slices.Index(costs, slices.Min(costs))
		if math.IsInf(costs[k], 1) {
			break
		}
		i, j := left[k], left[k+1]
		c.merge(i, j, costs[k]+c.list[i].bits+c.list[j].bits)
		left, costs = slices.Delete(left, k+1, k+2), slices.Delete(costs, k+1, k+2)
		costs[k] = cost(k)
		if k > 0 {
			costs[k-1] = cost(k - 1)
		}
	}
	return left
}

// mergePairs merges any two of the clusters that are left until at most most are
// left and no merging saves bits.
func (c *clustering) mergePairs(left []int, most int) {
	// costs[i] has those of merging cluster i of left with each one after it.
	costs := make([][]float64, len(left))
	best := make([]int, len(left)) // index in costs[i] of the least
	for i := range left {
		for _, j := range left[i+1:] {
			costs[i] = append(costs[i], c.mergeCost(left[i], j))
		}
		best[i] = leastIndex(costs[i])
	}
	for alive := len(left); ; alive-- {
		i, least := -1, math.Inf(1)
		for k, row := range costs {
			if len(row) > 0 && row[best[k]] < least {
				i, least = k, row[best[k]]
			}
		}
		if i < 0 || alive <= most && least >= 0 {
			return
		}
		j := i + 1 + best[i]
		c.merge(left[i], left[j], least+c.list[left[i]].bits+c.list[left[j]].bits)
		costs[j] = nil
		for k := range j {
			if len(costs[k]) > 0 {
				costs[k][j-k-1] = math.Inf(1)
			}
		}
		for k := range left {
			if k == i || c.into[left[k]] != left[k] {
				continue
			}
			low, high := min(i, k), max(i, k)
			costs[low][high-low-1] = c.mergeCost(left[i], left[k])
		}
		for k := range max(i, j) {
			to := k + 1 + best[k]
			if len(costs[k]) > 0 && (k == i || to == i || to == j) {
				best[k] = leastIndex(costs[k])
			} else if k < i && len(costs[k]) > 0 && costs[k][i-k-1] < costs[k][best[k]] {
				best[k] = i - k - 1
			}
		}
	}
}

// leastIndex returns the index of the least cost, 0 if there is none.
func leastIndex(costs []float64) int {
	best := 0
	for i, v := range costs {
		if v < costs[best] {
			best = i
		}
	}
	return best
}

// fillContexts sets the map of t. Contexts that do not occur go with a
// neighbour, so that runs are long.
func (c *clustering) fillContexts(t *tableSet, numbers []int) {
	levels := t.shape.levels
	for class := range t.shape.classes {
		owners := c.owner[class*levels:][:levels]
		table := 0
		if first := slices.IndexFunc(owners, func(o int) bool { return o >= 0 }); first >= 0 {
			table = numbers[c.alive(owners[first])]
		}
		for level, o := range owners {
			if o >= 0 {
				table = numbers[c.alive(o)]
			}
			t.contexts[class*levels+level] = uint8(table)
		}
	}
}

// alive returns the cluster that i is now part of.
func (c *clustering) alive(i int) int {
	for c.into[i] != i {
		i = c.into[i]
	}
	return i
}

// normalise returns frequencies that add up to 2^bits, near the shares of the
// counts, every token that occurs having at least 1.
func normalise(counts *[maxTokens]uint32, s *tableShape) (f [maxTokens]uint16) {
	whole := uint64(1) << s.bits
	total := uint64(0)
	for _, n := range counts[:s.tokens] {
		total += uint64(n)
	}
	if total == 0 {
		f[0] = uint16(whole)
		return f
	}
	sum := 0
	for i, n := range counts[:s.tokens] {
		if n > 0 {
			f[i] = uint16(max(1, (uint64(n)*whole+total/2)/total))
			sum += int(f[i])
		}
	}
	for ; sum < int(whole); sum++ {
		f[cheapest(counts, &f, s, 1)]++
	}
	for ; sum > int(whole); sum-- {
		f[cheapest(counts, &f, s, -1)]--
	}
	return f
}

// cheapest returns the token for which a change of its frequency by step, 1 or
// -1, adds the fewest bits.
func cheapest(counts *[maxTokens]uint32, f *[maxTokens]uint16, s *tableShape, step int) int {
	best, least, logs := 0, math.Inf(1), logOf()
	for i, n := range counts[:s.tokens] {
		if n == 0 || int(f[i])+step < 1 {
			continue
		}
		if bits := float64(n) * (logs[f[i]] - logs[int(f[i])+step]); bits < least {
			best, least = i, bits
		}
	}
	return best
}

// symbolBits returns about how many bits symbols take under t, the tables themselves
// not counted.
func (t *tableSet) symbolBits(counts [][maxTokens]uint32, idCounts *[maxTokens]uint32) float64 {
	total := 0.0
	add := func(counts *[maxTokens]uint32, f *[maxTokens]uint16) {
		for token, n := range counts[:t.shape.tokens] {
			if n > 0 {
				total += float64(n) * tokenBits(f[token], t.shape.bits)
			}
		}
	}
	for i := range counts {
		add(&counts[i], &t.frequencies[t.contexts[i]])
	}
	if idCounts != nil {
		add(idCounts, &t.frequencies[tableOfID])
	}
	return total
}

// logOf has log2 of frequencies.
var logOf = sync.OnceValue(func() *[1<<10 + 1]float64 {
	var t [1<<10 + 1]float64
	for n := range t[1:] {
		t[n+1] = math.Log2(float64(n + 1))
	}
	return &t
})

// tokenBits is the cost of a token of frequency f of 2^bits, raw bits not
// counted. One that cannot be coded is dear, but finite: choices are made with
// tables that may not know it.
func tokenBits(f uint16, whole uint) float64 {
	if f == 0 {
		return float64(whole + 3)
	}
	return float64(whole) - logOf()[f]
}

// valueToken returns the token of a value, how many raw bits follow it, and
// which.
func valueToken(v uint32) (token, rawBits, raw uint32) {
	if v < 16 {
		return v, 0, 0
	}
	e := uint32(bits.Len32(v) - 1)
	k := e - 1
	return 16 + 2*(e-4) + v>>k&1, k, v & (1<<k - 1)
}

// tokenValue returns the least value of a token, and how many raw bits are
// added to it.
func tokenValue(token uint32) (base, rawBits uint32) {
	if token < 16 {
		return token, 0
	}
	k := (token-16)/2 + 3
	return (2 + token&1) << k, k
}
