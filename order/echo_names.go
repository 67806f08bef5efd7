package order

// nameTable keeps the turn of every name that was requested in 8 bytes: 48 bits
// of a hash of the name, and the turn. Two names with the same 48 bits share a
// turn, of which one of 1.3 million names has a chance of 1 in 300; it costs
// them a decode too many or too few now and then.
//
// It grows by doubling up to maxSlots, three quarters of which are used at most:
// 11 to 21 bytes a name.
type nameTable struct {
	slots []uint64 // open addressing; 0 is free
	used  int
}

const (
	turnBits   = 16
	firstSlots = 1 << 8
)

// slotKey returns the bits of a hash that a slot keeps, which are never 0.
func slotKey(hash uint64) uint64 {
	if key := hash &^ (1<<turnBits - 1); key != 0 {
		return key
	}
	return 1 << turnBits
}

// find returns the slot of a key: the one that has it, or a free one.
func (n *nameTable) find(key uint64) int {
	mask := uint64(len(n.slots) - 1)
	for i := key >> turnBits & mask; ; i = (i + 1) & mask {
		if s := n.slots[i]; s == 0 || s&^(1<<turnBits-1) == key {
			return int(i)
		}
	}
}

// get returns the turn of a name, firstTurn where it is not known. known says
// whether its turn can be kept: it is there, or there is room for it.
func (n *nameTable) get(hash uint64, maxSlots int) (t turn, known bool) {
	if len(n.slots) > 0 {
		if s := n.slots[n.find(slotKey(hash))]; s != 0 {
			return turn(s), true
		}
	}
	return firstTurn, !n.full() || max(2*len(n.slots), firstSlots) <= maxSlots
}

func (n *nameTable) full() bool { return 4*(n.used+1) > 3*len(n.slots) }

// set keeps the turn of a name that get said can be kept, and returns by how many
// slots the table has grown.
func (n *nameTable) set(hash uint64, t turn) (grown int) {
	key := slotKey(hash)
	if len(n.slots) > 0 {
		if i := n.find(key); n.slots[i] != 0 {
			n.slots[i] = key | uint64(t)
			return 0
		}
	}
	if n.full() {
		grown = n.grow()
	}
	n.slots[n.find(key)] = key | uint64(t)
	n.used++
	return grown
}

func (n *nameTable) grow() int {
	old := n.slots
	n.slots = make([]uint64, max(2*len(old), firstSlots))
	for _, s := range old {
		if s != 0 {
			n.slots[n.find(s&^(1<<turnBits-1))] = s
		}
	}
	return len(n.slots) - len(old)
}

// HashName returns a hash of a name that differs with the seed. Echoes know
// names by it.
func HashName(seed uint64, name string) uint64 {
	h := mix(seed ^ 0x9e3779b97f4a7c15)
	for i := range len(name) { // FNV-1a
		h = (h ^ uint64(name[i])) * 0x100000001b3
	}
	return mix(h)
}

// mix is the finalizer of SplitMix64: every bit of x changes half of the result.
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}
