package order

// cycle is a factor in lowest terms: of so many requests of a name, so many are
// fresh, which is to say that the very image is decoded. Of echo2 it is 1 of 2,
// of echo1.5 it is 2 of 3.
type cycle struct{ requests, fresh uint32 }

func (f Factor) cycle() cycle {
	a, b := uint32(f), uint32(NoEchoes)
	for b != 0 {
		a, b = b, a%b
	}
	return cycle{requests: uint32(f) / a, fresh: uint32(NoEchoes) / a}
}

// turn is where a name stands in its cycle: how many requests it has had, and
// how many more of them were fresh than must have been by then. That is 0 or 1,
// and for a moment -1 or 2 where requests overlap that were settled one after
// the other. It takes 16 bits, since it is kept for every name.
type turn uint16

const (
	firstTurn turn = 1 // no request, none fresh
	leadBits       = 2
	leadMask       = 1<<leadBits - 1
)

func makeTurn(at uint32, lead int) turn {
	return turn(at<<leadBits) | turn(min(max(lead, -1), 2)+1)
}

func (t turn) at() uint32 { return uint32(t >> leadBits) }
func (t turn) lead() int  { return int(t&leadMask) - 1 }

// due says what a request of a name can get.
type due uint8

const (
	dueEcho  due = iota // its fresh ones of this part of the cycle were there
	dueLater            // it can be fresh now, and is scheduled for later
	dueNow              // it is scheduled to be fresh by now
	dueLast             // it must be fresh, or the cycle ends with too few
)

// due says what the next request of a name can get. Its schedule is begun at a
// phase, from 0 up to the requests of a cycle: request k is scheduled to be fresh
// where floor((k+1+phase)/e) is more than floor((k+phase)/e).
func (c cycle) due(t turn, phase uint32) due {
	next := (t.at() + 1) * c.fresh
	done := int(t.at()*c.fresh/c.requests) + t.lead()
	switch {
	case done < int(next/c.requests):
		return dueLast
	case done >= int((next+c.requests-1)/c.requests):
		return dueEcho
	case done < int((next+phase)/c.requests):
		return dueNow
	}
	return dueLater
}

// after returns where a name stands after its next request.
func (c cycle) after(t turn, fresh bool) turn {
	done := int(t.at()*c.fresh/c.requests) + t.lead()
	if fresh {
		done++
	}
	at := t.at() + 1
	lead := done - int(at*c.fresh/c.requests)
	return makeTurn(at%c.requests, lead)
}
