package avx2

// Sizes of the tables of the dense coding of 8 bits.
const (
	dense8Bits    = 9  // log2 of the slots of a table
	dense8Tables  = 16 // the last one is that of predictors
	dense8Classes = 8  // of contexts: four planes, even and odd columns

	// Dense8Slots is the number of slots of all tables.
	Dense8Slots = dense8Tables << dense8Bits
)

// Dense8Levels is how many levels the sums of each class of contexts have: one for
// each sum below 16, one for each four up to 63, one for each sixteen up to 255.
const Dense8Levels = 40

// A Dense8 is what decoding images of the dense coding of 8 bits takes, besides
// the slots of the tables.
type Dense8 struct {
	tables     [dense8Classes][3 * 16]uint8 // twice the table of each context, as dense8_contexts.h explains
	logStreams int64
}

// SetTables sets the table of each context, class by class, which is the number of
// a plane, twice, and 1 for odd columns. Tables are 0 to 14.
func (d *Dense8) SetTables(contexts []uint8) {
	for class := range d.tables {
		for level, table := range contexts[class*Dense8Levels:][:Dense8Levels] {
			part, place := 0, level
			switch {
			case level >= 28:
				part, place = 32, level-24
			case level >= 16:
				part, place = 16, level-12
			}
			d.tables[class][part+place] = 2 * (table % dense8Tables)
		}
	}
}

// SetStreams sets the number of streams, as its logarithm, 0 to 5.
func (d *Dense8) SetStreams(log int) { d.logStreams = int64(min(max(log, 0), 5)) }
