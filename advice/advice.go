// Package advice says what would free readers that wait for decoding.
//
// The time of a reader has two parts: it waits until an image that it has opened
// is there (upstream), and it does everything else, the training step included
// (downstream). [Of] compares the two and names, with the numbers behind them,
// what would make the first one shorter: echoes, a lower fidelity, another
// coding, the cache, processors, reading ahead.
//
// It is a function of what was seen and of nothing else. It does not know why a
// reader takes its time between two images, nor what a model makes of echoed or
// coarser images: it says what they would gain in time, and where it is known
// to stop being free.
package advice

import (
	"fmt"
	"math"
	"strings"
	"time"

	"prismfs/internal/plural"
)

// Coding sorts how images are stored by what it takes to decode them.
type Coding string

// The codings. Others have nothing that could be changed about them.
const (
	Dense  Coding = "dense" // L3 with entropy coding
	Fast   Coding = "fast"  // L3 without
	JPEG   Coding = "jpeg"  // progressive, of PCR
	Stored Coding = ""      // not decoded, or anything else
)

// Seen is what readers of a view did for a while.
type Seen struct {
	View string `json:"view"` // with its folder, below the mount point: train+2; "" is the whole mount
	Path string `json:"path"` // of the view, with the mount point
	// Folders are those below it that were read, where they are few and the view is of
	// the whole mount: train and val, which are counted together.
	Folders []string `json:"folders,omitempty"`
	Readers int      `json:"readers"` // threads
	Opens   int64    `json:"opens"`   // of images; several of one image in a row, by one thread, are one
	Misses  int64    `json:"misses"`  // of them, those that the cache did not have

	// The sums of all readers. Own is the time between two opens, Waited that in
	// opens. Of Waited, Store went by with reading from the source, Queue with
	// waiting for a place to decode, Decode with decoding.
	Own    time.Duration `json:"own_ns"`
	Waited time.Duration `json:"waited_ns"`
	Store  time.Duration `json:"store_ns"`
	Queue  time.Duration `json:"queue_ns"`
	Decode time.Duration `json:"decode_ns"`

	Files     int64   `json:"files"`      // different ones since the mount, about
	FileBytes int64   `json:"file_bytes"` // of one, decoded, on average
	Coding    Coding  `json:"coding"`
	Echo      float64 `json:"echo"` // factor of the view; 0 is none

	// Fidelity is the one that was read, from 1 on, and Fidelities[k-1] the bytes
	// of an image, on average, at fidelity k. Where there is one only it is nil.
	Fidelity   int     `json:"fidelity,omitempty"`
	Fidelities []int64 `json:"fidelity_bytes,omitempty"`
}

// Machine is what the readers run on.
type Machine struct {
	Processors  int   `json:"processors"`
	Jobs        int   `json:"jobs"` // images decoded at a time
	CacheBudget int64 `json:"cache_budget_bytes"`
	Memory      int64 `json:"memory_bytes"` // free, or in the cache
	Pin         bool  `json:"cache_policy_pin"`
}

// Verdict says whether readers wait.
type Verdict string

// The verdicts.
const (
	TooFew  Verdict = "too few reads"
	Nothing Verdict = "nothing to gain"
	Waiting Verdict = "waiting"
)

// Step is something to do.
type Step struct {
	Kind Kind   `json:"kind"`
	Text string `json:"text"`
	// Value is the number that Text names: a factor, a fidelity, bytes, jobs.
	Value float64 `json:"value,omitempty"`
	// Gain is how many times as many images a second a reader would get, at most;
	// 0 where that is not known.
	Gain float64 `json:"gain,omitempty"`
}

// Kind is what a step changes.
type Kind string

// The kinds.
const (
	Echo       Kind = "echo"
	Fidelity   Kind = "fidelity"
	Recode     Kind = "coding"
	Cache      Kind = "cache"
	Policy     Kind = "policy"
	Jobs       Kind = "jobs"
	Processors Kind = "processors"
	Workers    Kind = "workers"
	Plan       Kind = "plan"
	Patience   Kind = "first pass" // what waits now will not in the next pass
)

// Advice is what Of says.
type Advice struct {
	Seen    Seen    `json:"seen"`
	Verdict Verdict `json:"verdict"`
	Text    string  `json:"text"` // the verdict in sentences, with its numbers
	Steps   []Step  `json:"steps"`
}

const (
	// minOpens: fewer reads say nothing.
	minOpens = 32
	// waitShare is the part of a reader's time from which on waiting is worth a
	// word.
	waitShare = 0.10
	// minGain is what a step must promise to be named.
	minGain = 1.10
	// minEcho is the smallest factor worth a view, and maxEcho the largest that is
	// named: in the experiments of Choi et al. (arXiv 1907.05550) factors up to 4
	// or 5 saved nearly as many fresh images as they could, larger ones less and
	// less.
	minEcho, maxEcho = 1.25, 4
	// mostOf is the part of the waiting that a cause has to make up for something
	// to be done about it.
	mostOf = 0.5
	// queueShare is that part for waiting in the queue.
	queueShare = 0.3
	// fastGain is how many times as fast mode fast is decoded as mode dense, and
	// fastSize how large it is beside it: docs/tuning.md.
	fastGain, fastSize = 4, 1.2
	// policyGain is by how much of all reads a policy has to find more.
	policyGain = 0.05
	// spareMemory is the part of the memory that a larger cache may be told to
	// take.
	spareMemory = 0.75
)

// Of says what would free the readers of a view.
func Of(s Seen, m Machine) Advice {
	a := Advice{Seen: s, Steps: []Step{}}
	if s.Opens < minOpens {
		a.Verdict = TooFew
		a.Text = fmt.Sprintf("%s: %s of images lately %s too few to say anything; ask again while a job runs.", where(s), plural.Of(s.Opens, "open"), plural.Or(s.Opens, "is", "are"))
		return a
	}
	p := perImage(s)
	if p.share() < waitShare {
		a.Verdict = Nothing
		a.Text = fmt.Sprintf("%s: readers wait %s for an image and take %s for everything else, so that they wait in %.0f %% of their time: there is nothing to gain.",
			where(s), ms(p.wait), ms(p.own), 100*p.share())
		return a
	}
	a.Verdict = Waiting
	a.Text = fmt.Sprintf("%s: readers wait %s for an image and take %s for everything else, so that they wait in %.0f %% of their time. Of the %s, %s are reading from the source, %s waiting for a free processor, %s decoding, %s the rest (opening, the kernel, waiting for what is decoded for others). %.0f %% of the images were in the cache.",
		where(s), ms(p.wait), ms(p.own), 100*p.share(), ms(p.wait), ms(p.store), ms(p.queue), ms(p.decode), ms(p.rest()), 100*(1-float64(s.Misses)/float64(s.Opens)))
	for _, rule := range []func(Seen, Machine, times) []Step{fromCache, fromProcessors, fromAhead, fromFidelity, fromCoding, fromEcho} {
		a.Steps = append(a.Steps, rule(s, m, p)...)
	}
	return a
}

// where names the view, and what was read of it.
func where(s Seen) string {
	if len(s.Folders) < 2 {
		return s.Path
	}
	return fmt.Sprintf("%s (%s together)", s.Path, strings.Join(s.Folders, " and "))
}

// times are means of an image, in seconds.
type times struct{ own, wait, store, queue, decode float64 }

func perImage(s Seen) times {
	mean := func(d time.Duration) float64 { return max(d, 0).Seconds() / float64(s.Opens) }
	return times{own: mean(s.Own), wait: mean(s.Waited), store: mean(s.Store), queue: mean(s.Queue), decode: mean(s.Decode)}
}

// rest is what is known of waiting apart from its causes.
func (p times) rest() float64 { return max(0, p.wait-p.store-p.queue-p.decode) }

// share is the part of its time in which a reader waits.
func (p times) share() float64 {
	if p.wait+p.own == 0 {
		return 0
	}
	return p.wait / (p.wait + p.own)
}

// gain is how many times as many images a reader gets if it waits for another
// time.
func (p times) gain(wait float64) float64 {
	return (p.wait + p.own) / max(max(wait, 0)+p.own, 1e-9)
}

// ratio is upstream over downstream.
func (p times) ratio() float64 { return p.wait / max(p.own, 1e-9) }

// fromEcho: a factor of up to upstream over downstream costs no time.
func fromEcho(s Seen, _ Machine, p times) []Step {
	now := max(s.Echo, 1)
	ratio := now * p.ratio()
	factor := min(ratio, maxEcho)
	if factor >= 1.5 {
		factor = math.Floor(2*factor) / 2
	}
	if factor < minEcho || factor <= now {
		return nil
	}
	factor = math.Floor(100*factor) / 100
	gain := p.gain(p.wait * now / factor)
	text := fmt.Sprintf("Echo: a reader waits %.1f times as long as it works, so that an image can be used up to %.1f times without taking longer than now. Read %s: up to %.2g times as many images a second, of which one in %g is fresh.",
		ratio, ratio, echoName(s, factor), gain, factor)
	if ratio > maxEcho {
		text += fmt.Sprintf(" More than %d is not free: in published experiments (arXiv 1907.05550) echoes beyond 4 or 5 taught a model less and less.", maxEcho)
	} else {
		text += " Echoed images teach a model nearly as much as fresh ones at such factors (arXiv 1907.05550); check it with yours."
	}
	return []Step{{Kind: Echo, Text: text, Value: factor, Gain: gain}}
}

func echoName(s Seen, factor float64) string {
	if s.Echo > 1 {
		return fmt.Sprintf("it with echo%g in the place of echo%g", factor, s.Echo)
	}
	if s.View == "" {
		return fmt.Sprintf("%s/+echo%g", s.Path, factor)
	}
	return fmt.Sprintf("%s+echo%g", s.Path, factor)
}

// fromFidelity: where the source is what is slow, fewer bytes.
func fromFidelity(s Seen, _ Machine, p times) []Step {
	if s.Fidelity < 2 || s.Fidelity > len(s.Fidelities) || p.store < mostOf*p.wait || s.Fidelities[s.Fidelity-1] <= 0 {
		return nil
	}
	full := float64(s.Fidelities[s.Fidelity-1])
	wait := func(k int) float64 { return p.wait - p.store*(1-float64(s.Fidelities[k-1])/full) }
	best := 1
	for k := s.Fidelity - 1; k > 1; k-- {
		free := wait(k) <= waitShare*(wait(k)+p.own)
		if free || p.gain(wait(k)) >= 0.8*p.gain(wait(1)) { // most of what there is to gain
			best = k
			break
		}
	}
	if p.gain(wait(best)) < minGain {
		return nil
	}
	text := fmt.Sprintf("Fidelity: the source is slow, and lower fidelities read fewer bytes. Of the %s of an image at fidelity %d,", bytes(int64(full)), s.Fidelity)
	for i, k := range shown(best, s.Fidelity) {
		if i > 0 {
			text += ","
		}
		text += fmt.Sprintf(" fidelity %d reads %s (%.0f %%; readers would wait about %s)", k, bytes(s.Fidelities[k-1]), 100*float64(s.Fidelities[k-1])/full, ms(max(wait(k), 0)))
	}
	text += fmt.Sprintf(". Read fidelity %d (+%d), or +auto and set it with prismfs fidelity while the job runs; images get coarser, and docs/pcr.md shows by how much.", best, best)
	return []Step{{Kind: Fidelity, Text: text, Value: float64(best), Gain: p.gain(wait(best))}}
}

// shown lists a few fidelities below now, the best among them.
func shown(best, now int) []int {
	var list []int
	for _, k := range []int{1, 2, 5} {
		if k < now && k < best {
			list = append(list, k)
		}
	}
	list = append(list, best)
	if between := (best + now) / 2; between > best && between < now {
		list = append(list, between)
	}
	return list
}

// fromCoding: where decoding is what is slow, a coding that is decoded sooner.
func fromCoding(s Seen, _ Machine, p times) []Step {
	if p.decode+p.queue < mostOf*p.wait {
		return nil
	}
	switch s.Coding {
	case Dense:
		gain := p.gain(p.wait - (p.decode+p.queue)*(1-1.0/fastGain))
		if gain < minGain {
			return nil
		}
		return []Step{{Kind: Recode, Gain: gain, Text: fmt.Sprintf(
			"Coding: decoding takes %s of the %s, and the images are packed densely. prismfs pack --mode fast makes files that are decoded about %d times as fast and are about %.0f %% larger (docs/tuning.md; not for depth maps and drawings).",
			ms(p.decode+p.queue), ms(p.wait), fastGain, 100*(fastSize-1))}}
	case JPEG:
		return []Step{{Kind: Recode, Text: fmt.Sprintf(
			"Coding: decoding takes %s of the %s. Progressive JPEGs of full fidelity take about 2.5 times as long as baseline ones; fidelities up to 5 are decoded in 0.5 to 0.6 of the time (docs/pcr.md), and where there is room on a fast disk, prismfs pack --to l3 --mode fast makes files that are decoded several times as fast.",
			ms(p.decode+p.queue), ms(p.wait))}}
	}
	return nil
}

// fromProcessors: where requests queue, more that decode at a time.
func fromProcessors(s Seen, m Machine, p times) []Step {
	if p.queue < queueShare*p.wait || m.Jobs < 1 {
		return nil
	}
	if m.Jobs < m.Processors {
		return []Step{{Kind: Jobs, Value: float64(m.Processors), Text: fmt.Sprintf(
			"Jobs: images wait %s for one of %d decoding threads, and the machine has %d processors. Mount with --jobs %d.",
			ms(p.queue), m.Jobs, m.Processors, m.Processors)}}
	}
	return []Step{{Kind: Processors, Text: fmt.Sprintf(
		"Processors: images wait %s for one of %d processors, which decode an image in %s. More processors, or a GPU, would shorten that; more loader workers would not.",
		ms(p.queue), m.Processors, ms(p.decode))}}
}

// fromAhead: what is decoded while a reader does something else is not waited
// for.
func fromAhead(s Seen, m Machine, p times) []Step {
	if p.queue >= queueShare*p.wait { // no processor is idle meanwhile
		return nil
	}
	var steps []Step
	ahead := max(p.wait, p.own)
	if gain := (p.wait + p.own) / max(ahead, 1e-9); gain >= minGain && s.Echo <= 1 {
		steps = append(steps, Step{Kind: Plan, Gain: gain, Text: fmt.Sprintf(
			"Plan: images can be decoded while readers do something else, if the order is known: prismfs plan, up to %.2g times as many images a second for each reader.", gain)})
	}
	if s.Readers < m.Processors && p.decode >= mostOf*p.wait {
		steps = append(steps, Step{Kind: Workers, Value: float64(m.Processors), Gain: float64(m.Processors) / float64(s.Readers), Text: fmt.Sprintf(
			"Workers: %d threads read, and the machine has %d processors. A loader with %d workers would have as many images decoded at a time.",
			s.Readers, m.Processors, m.Processors)})
	}
	return steps
}

// fromCache: what is kept need not be decoded again.
func fromCache(s Seen, m Machine, p times) []Step {
	if s.Misses == 0 || s.Files == 0 || s.FileBytes <= 0 {
		return nil
	}
	all := float64(s.Files) * float64(s.FileBytes)
	budget := float64(m.CacheBudget)
	if all <= budget {
		return []Step{{Kind: Patience, Text: fmt.Sprintf(
			"Cache: about %d different images (an estimate) have been read, %s decoded, and the cache has room for them (%s). If that is all, the next epoch will not wait; prismfs warmup decodes them beforehand.",
			s.Files, bytes(int64(all)), bytes(m.CacheBudget))}}
	}
	have := fmt.Sprintf("about %d different images (an estimate) have been read, %s decoded, and the cache has room for %s", s.Files, bytes(int64(all)), bytes(m.CacheBudget))
	var steps []Step
	lru, pin := lruHits(budget/all), pinHits(budget, all)
	if !m.Pin && pin-lru >= policyGain {
		steps = append(steps, Step{Kind: Policy, Value: pin, Gain: p.gain(p.wait * (1 - pin) / (1 - lru)), Text: fmt.Sprintf(
			"Policy: %s. %.0f %% of the images were found there lately. If each epoch reads all of them in another order, which is a guess, an LRU finds about %.0f %% in the long run; mount --cache-policy pin keeps what came first and finds %.0f %%.",
			have, 100*(1-float64(s.Misses)/float64(s.Opens)), 100*lru, 100*pin)})
	}
	need := all * 1.05
	if need <= spareMemory*float64(m.Memory) {
		steps = append(steps, Step{Kind: Cache, Value: need, Text: fmt.Sprintf(
			"Cache: %s. The machine has %s of memory to spare: mount --cache %s, and each image is decoded once.",
			have, bytes(m.Memory), flagSize(need))})
	}
	return steps
}

// lruHits is the part of a dataset that an LRU finds which holds the part r of
// it, with another order in each epoch; package cache has a test of it.
func lruHits(r float64) float64 {
	a := 1 - r
	if a <= 0 {
		return 1
	}
	return 1 - a + a*math.Log(a)
}

// pinHits is that part with policy pin, which leaves 1/8 of the budget, 512 MiB at
// most, to newcomers.
func pinHits(budget, all float64) float64 {
	return (budget - min(budget/8, 512<<20)) / all
}

// ms writes seconds as milliseconds.
func ms(seconds float64) string {
	switch v := 1000 * seconds; {
	case v >= 100:
		return fmt.Sprintf("%.0f ms", v)
	case v >= 1:
		return fmt.Sprintf("%.1f ms", v)
	default:
		return fmt.Sprintf("%.2f ms", v)
	}
}

// bytes writes a number of bytes in binary units.
func bytes(n int64) string {
	value, unit := float64(n), 0
	for value >= 1024 && unit < 5 {
		value /= 1024
		unit++
	}
	if unit == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", value, []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB"}[unit])
}

// flagSize writes bytes as a flag takes them, rounded up.
func flagSize(n float64) string {
	if n > 1<<32 {
		return fmt.Sprintf("%.0fGiB", math.Ceil(n/(1<<30)))
	}
	return fmt.Sprintf("%.0fMiB", math.Ceil(n/(1<<20)))
}
