package kernels

// The structs of layout.h, which says what their fields mean.

// An Image tells a kernel where the samples of an image go and what its patches
// are decoded with.
type Image struct {
	Pixels      uint64
	PixelBytes  uint64
	RowStep     uint64
	ChannelStep uint64
	PixelStep   uint32
	Tables      uint32
	Ranks       uint32
	RankCount   uint32
	Hole        uint32
	Flip        uint16
	PaletteSize uint16
	Channels    uint8
	SampleBytes uint8
	LogStreams  uint8
	RawBits     uint8
	_           uint32
}

// NoHole stands for the hole value of an image that has none.
const NoHole = 0x10000

// A Patch tells a kernel where the bytes of a patch are and what it covers.
type Patch struct {
	Start  uint64
	Length uint32
	CRC    uint32
	Image  uint32
	X, Y   uint32
	Width  uint16
	Height uint16
	Kind   uint32
	_      uint32
}

// Dense8Tables is a table set of the dense coding of 8 bits.
type Dense8Tables struct {
	Contexts [320]uint8
	Slots    [16][512]uint32
}

// Dense16Tables is a table set of the dense coding of 16 bits.
type Dense16Tables struct {
	Contexts [1024]uint8
	Slots    [16][1024]uint32
}

// LabelsTables is a table set of the labels coding.
type LabelsTables struct {
	TableOf [6144]uint8
	Bounds  [48][4]uint16
	Palette [256]uint8
}

// A Status is what a kernel says of a patch. Only the first one is good; the
// reason of any other is for logs, since the CPU decodes the image again and
// finds the error itself.
type Status uint32

// The statuses. Whoever launches kernels sets those of patches without a checksum
// to StatusWaiting beforehand; l3_crc does so for the others.
const (
	StatusOK Status = iota
	StatusWaiting
	StatusBadChecksum
	StatusBadPlace
	StatusBadHead
	StatusRanOut
	StatusLeftOver
	StatusBadValue
	StatusBadWidth
	StatusBadException
)

var statusNames = [...]string{
	"ok", "not decoded", "bad checksum", "outside the buffers", "bad head", "bytes run out", "bytes are left over",
	"a value out of range", "a width out of range", "a bad exception",
}

func (s Status) String() string {
	if int(s) < len(statusNames) {
		return statusNames[s]
	}
	return "unknown status"
}

// The shape of a launch: BlockThreads threads a block, Patches of which are
// decoded by a block, one by each warp. (Of the published format it is three
// descriptors a warp.)
const (
	WarpLanes    = 32
	BlockWarps   = 4
	BlockThreads = WarpLanes * BlockWarps
)
