package l3

import _ "embed" // the built-in tables

// dense8Bits is log2 of the slots of a table. Ten bits instead of nine make files
// smaller by 0.26 % and the tables 64 KB, more than the first cache holds.
const dense8Bits = 9

// dense8Shape is what table sets of the dense coding of 8 bits are. Classes are
// planes, of each the even and the odd columns.
var dense8Shape = tableShape{
	bits: dense8Bits, tokens: 24, classes: 8, levels: levels8, ids: true, slot: byteSlot,
}

// contextClass is the class of a phase's contexts.
func contextClass(plane int, odd bool) int {
	if odd {
		return 2*plane + 1
	}
	return 2 * plane
}

// A slot of 8-bit values: the token's least value, the slot's offset within the
// token's slots (10 bits), the token's frequency (11 bits), its raw bits.
const (
	slotOffset    = 8
	slotFrequency = 18
	slotRawBits   = 29
)

func byteSlot(token, offset, frequency uint32) uint32 {
	base, rawBits := tokenValue(token)
	return base | offset<<slotOffset | frequency<<slotFrequency | rawBits<<slotRawBits
}

//go:embed tables/dense8-0.bin
var dense8Set0 []byte

// dense8Sets are the built-in table sets of the dense coding of 8 bits. In each of
// them every context can have every token.
//
//	0  small photographs: 32×32 to 224×224 pixels, scaled down from larger ones
var dense8Sets = newBuiltinTables(&dense8Shape, dense8Set0)
