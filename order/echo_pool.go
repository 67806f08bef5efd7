package order

// pooled is an image that was decoded lately and can be served again.
type pooled[P, K comparable, S any] struct {
	key    K
	sample S
	bytes  int64
	left   int // echoes that it still owes
	in     *echoPool[P, K, S]
	place  int // in the pool; -1 when it has left
}

// echoPool holds the images of a class folder of which echoes are drawn. Those
// that owe echoes come first. The others stay until there is no room, for names
// that have had their fresh request and find nothing else.
type echoPool[P, K comparable, S any] struct {
	of      *EchoOrder[P, K, S]
	key     P
	variant int // samples of another one were other files
	seed    uint64
	draws   uint64

	samples  []*pooled[P, K, S]
	byKey    map[K]*pooled[P, K, S]
	owing    int // samples that owe echoes: the first of them
	credits  int // echoes that are owed in all
	promised int // requests that were settled to be fresh and have not come
	rest     int // hundredths of an echo that the last fresh one did not give
	bytes    int64
	last     int64  // bytes of the sample that came last
	used     uint64 // on the clock of requests
	place    int    // among all pools; -1 when it is forgotten
}

// random returns a number below n.
func (p *echoPool[P, K, S]) random(n int) int {
	p.draws++
	return int(mix(p.seed+p.draws*0x9e3779b97f4a7c15) % uint64(n))
}

// draw takes an echo from a sample, at random among those that owe one. Where
// none does it repeats one of the others.
func (p *echoPool[P, K, S]) draw() (x *pooled[P, K, S], repeated bool) {
	if p.owing == 0 {
		return p.samples[p.random(len(p.samples))], true
	}
	x = p.samples[p.random(p.owing)]
	p.owe(x, -1)
	return x, false
}

// owe changes what a sample owes.
func (p *echoPool[P, K, S]) owe(x *pooled[P, K, S], by int) {
	before := x.left
	x.left += by
	p.credits += by
	switch {
	case before == 0 && x.left > 0:
		p.swap(x.place, p.owing)
		p.owing++
	case before > 0 && x.left == 0:
		p.owing--
		p.swap(x.place, p.owing)
	}
}

func (p *echoPool[P, K, S]) swap(i, j int) {
	s := p.samples
	s[i], s[j] = s[j], s[i]
	s[i].place, s[j].place = i, j
}

// grant returns how many echoes the next fresh image owes: on average one less
// than the factor.
func (p *echoPool[P, K, S]) grant(f Factor) int {
	p.rest += int(f - NoEchoes)
	n := p.rest / int(NoEchoes)
	p.rest %= int(NoEchoes)
	return n
}

func (p *echoPool[P, K, S]) add(key K, sample S, bytes int64) *pooled[P, K, S] {
	x := &pooled[P, K, S]{key: key, sample: sample, bytes: bytes, in: p, place: len(p.samples)}
	p.samples = append(p.samples, x)
	if p.byKey == nil {
		p.byKey = make(map[K]*pooled[P, K, S])
	}
	p.byKey[key] = x
	p.bytes += bytes
	return x
}

// remove takes a sample out, with what it owes.
func (p *echoPool[P, K, S]) remove(x *pooled[P, K, S]) {
	p.owe(x, -x.left)
	last := len(p.samples) - 1
	p.swap(x.place, last)
	p.samples[last] = nil
	p.samples = p.samples[:last]
	delete(p.byKey, x.key)
	p.bytes -= x.bytes
	x.place = -1
}

// leastOwing returns the sample to go first: one that owes nothing, else the
// one that owes least out of a few.
func (p *echoPool[P, K, S]) leastOwing() *pooled[P, K, S] {
	if spent := len(p.samples) - p.owing; spent > 0 {
		return p.samples[p.owing+p.random(spent)]
	}
	least := p.samples[p.random(len(p.samples))]
	for range choices - 1 {
		if x := p.samples[p.random(len(p.samples))]; x.left < least.left {
			least = x
		}
	}
	return least
}
