package bench

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"strings"
	"time"

	"prismfs/internal/plural"
	"prismfs/l3"
)

// A Report is what Run has measured. Speeds are in megabytes (10^6 bytes) of
// samples a second.
type Report struct {
	Folder      string   `json:"folder"`
	Images      int      `json:"images"`
	SampleBytes int64    `json:"sample_bytes"`
	Rounds      int      `json:"rounds"`
	Effort      int      `json:"effort"` // of dense and labels
	Processors  int      `json:"processors"`
	Processor   string   `json:"processor"` // its name, "" where it is not known
	Load        float64  `json:"load_before"`
	L3Decoder   string   `json:"l3_decoder"`
	Programs    []string `json:"programs"` // with versions
	// Codecs are ordered as they were measured, PNG first where it is there.
	Codecs  []Result  `json:"codecs"`
	Absent  []Problem `json:"absent"`   // codecs that could not be measured, and why
	Skipped []Problem `json:"skipped"`  // images that could not be read, and why
	L3Files int       `json:"l3_files"` // in the folder, which are not measured
	// Failed are images, or all of them at once, by codecs that cannot do them;
	// the first MostFailed of them.
	Failed     []Problem `json:"failed"`
	FailedMore int       `json:"failed_more"` // how many more
	Files      []File    `json:"files"`
}

// MostFailed is how many failures a report names.
const MostFailed = 50

// A Problem is something that was left out of a report.
type Problem struct {
	Subject string `json:"subject"`
	Codec   string `json:"codec,omitempty"`
	Reason  string `json:"reason"`
}

// A Result is what one codec came to. It tells of the images that the codec can
// hold, whose samples came out of it unchanged.
type Result struct {
	Codec       string  `json:"codec"`
	Images      int     `json:"images"`
	SampleBytes int64   `json:"sample_bytes"`
	FileBytes   int64   `json:"file_bytes"`
	OverSamples float64 `json:"over_samples"` // FileBytes / SampleBytes
	// OverPNG compares those images of which there is a PNG too; nil where
	// there is none.
	OverPNG  *OverPNG `json:"over_png"`
	Encode   float64  `json:"encode_mb_per_s"` // on one core
	OneCore  float64  `json:"decode_mb_per_s"`
	AllCores float64  `json:"decode_all_cores_mb_per_s"` // 0: could not be measured
}

// OverPNG is a codec beside PNG as Pillow writes and reads it.
type OverPNG struct {
	Images        int     `json:"images"`
	GeometricMean float64 `json:"size_geometric_mean"` // of the size over that of the PNG, by image
	Total         float64 `json:"size_total"`          // of the sums of sizes
	OneCore       float64 `json:"decode"`              // speed over PNG's, of the same images
	AllCores      float64 `json:"decode_all_cores"`    // 0: could not be measured
}

// A File is one image and what every codec made of it.
type File struct {
	Path        string             `json:"path"`
	Shape       []int              `json:"shape"` // height, width, channels
	DType       string             `json:"dtype"`
	SampleBytes int64              `json:"sample_bytes"`
	Bytes       map[string]int64   `json:"bytes"`           // by codec
	Decode      map[string]float64 `json:"decode_mb_per_s"` // by codec, on one core
}

func newReport(dir string, opt Options, images []*sourceImage, found *findings) *Report {
	r := &Report{
		Folder: dir, Images: len(images), Rounds: opt.Rounds, Effort: opt.Effort,
		Processors: opt.Jobs, Processor: processorName(), Load: load(), L3Decoder: l3.NewDecoder(l3.Limits{}).Backend(),
		Programs: []string{runtime.Version()}, Codecs: []Result{}, Absent: []Problem{}, Skipped: []Problem{}, Failed: []Problem{},
	}
	r.Skipped = append(r.Skipped, found.skipped...)
	r.L3Files = found.l3Files
	for _, image := range images {
		r.SampleBytes += image.Bytes()
	}
	return r
}

// processorName is what Linux calls the processor.
func processorName() string {
	data, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(data)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// load is how many processes wanted a processor in the last minute, 0 where it is
// not known.
func load() float64 {
	data, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0
	}
	var minute float64
	if _, err := fmt.Sscan(string(data), &minute); err != nil {
		return 0
	}
	return minute
}

// quietLoad is the load a core up to which a machine counts as quiet.
const quietLoad = 0.25

// Quiet tells whether the machine did little else before the run. On a busy one
// the fastest round of a slow codec is less likely to have been left alone than
// that of a fast one, so that ratios flatter the fast ones.
func (r *Report) Quiet() bool { return r.Load <= quietLoad*float64(runtime.NumCPU()) }

func (r *Report) absent(subject string, err error) {
	r.Absent = append(r.Absent, Problem{Subject: subject, Reason: err.Error()})
}

// failed notes a problem once.
func (r *Report) failed(p Problem) {
	for _, before := range r.Failed {
		if before == p {
			return
		}
	}
	if len(r.Failed) == MostFailed {
		r.FailedMore++
		return
	}
	r.Failed = append(r.Failed, p)
}

// finish draws the figures from what was measured.
func (r *Report) finish(b *benchmark) {
	r.Files = files(b)
	png := map[*sourceImage]*stored{}
	var pngAll float64
	for _, c := range b.codecs {
		if c.name() == pngFormat {
			for _, s := range b.stored[c] {
				png[s.image] = s
			}
			pngAll = speed(sampleBytes(b.stored[c]), b.all[c])
		}
	}
	for _, c := range b.codecs {
		all := b.stored[c]
		if len(all) == 0 {
			r.noneOf(c, b)
			continue
		}
		result := newResult(c.name(), all, b.all[c])
		result.OverPNG = overPNG(all, png)
		if result.OverPNG != nil && pngAll > 0 {
			result.OverPNG.AllCores = result.AllCores / pngAll
		}
		r.Codecs = append(r.Codecs, result)
	}
}

// noneOf says why a codec has no result.
func (r *Report) noneOf(c codec, b *benchmark) {
	reason := "none of the images is of a kind that it holds"
	for _, image := range b.images {
		if c.takes(image) {
			reason = "it failed on every image"
		}
	}
	r.Absent = append(r.Absent, Problem{Subject: c.name(), Reason: reason})
}

func newResult(name string, all []*stored, onAllCores time.Duration) Result {
	r := Result{Codec: name, Images: len(all), SampleBytes: sampleBytes(all)}
	var encode, decode time.Duration
	for _, s := range all {
		r.FileBytes += s.bytes
		encode += s.encode
		decode += s.fastest
	}
	r.OverSamples = float64(r.FileBytes) / float64(r.SampleBytes)
	r.Encode, r.OneCore = speed(r.SampleBytes, encode), speed(r.SampleBytes, decode)
	r.AllCores = speed(r.SampleBytes, onAllCores)
	return r
}

func sampleBytes(all []*stored) int64 {
	var n int64
	for _, s := range all {
		n += s.image.Bytes()
	}
	return n
}

// speed is in megabytes a second, 0 for no time.
func speed(bytes int64, took time.Duration) float64 {
	if took <= 0 {
		return 0
	}
	return float64(bytes) / 1e6 / took.Seconds()
}

// overPNG compares images with their PNGs, nil if there are none.
func overPNG(all []*stored, png map[*sourceImage]*stored) *OverPNG {
	var o OverPNG
	var logs float64
	var bytes, pngBytes int64
	var took, pngTook time.Duration
	for _, s := range all {
		p := png[s.image]
		if p == nil {
			continue
		}
		o.Images++
		logs += math.Log(float64(s.bytes) / float64(p.bytes))
		bytes, pngBytes = bytes+s.bytes, pngBytes+p.bytes
		took, pngTook = took+s.fastest, pngTook+p.fastest
	}
	if o.Images == 0 {
		return nil
	}
	o.GeometricMean = math.Exp(logs / float64(o.Images))
	o.Total = float64(bytes) / float64(pngBytes)
	if took > 0 {
		o.OneCore = float64(pngTook) / float64(took)
	}
	return &o
}

// files lists the images.
func files(b *benchmark) []File {
	of := map[*sourceImage]*File{}
	out := make([]File, len(b.images))
	for i, image := range b.images {
		out[i] = File{
			Path: image.path, Shape: []int{image.Height, image.Width, image.Channels}, DType: image.DType.String(),
			SampleBytes: image.Bytes(), Bytes: map[string]int64{}, Decode: map[string]float64{},
		}
		of[image] = &out[i]
	}
	for _, c := range b.codecs {
		for _, s := range b.stored[c] {
			of[s.image].Bytes[c.name()] = s.bytes
			of[s.image].Decode[c.name()] = speed(s.image.Bytes(), s.fastest)
		}
	}
	return out
}

// Title returns the name of a codec for people.
func Title(codec string) string {
	switch codec {
	case pngFormat:
		return "PNG"
	case webpFormat:
		return "WebP lossless"
	case "jpeg-xl":
		return "JPEG XL, effort " + jpegXLEffort
	}
	return fmt.Sprintf("L3 %s", codec)
}

// NotMeasured says that L3 files of the folder were not, "" where there are none.
func (r *Report) NotMeasured() string { return notMeasured(r.L3Files) }

func notMeasured(l3Files int) string {
	if l3Files == 0 {
		return ""
	}
	return fmt.Sprintf("not measured: %s; give the folder of %s source images", plural.Of(l3Files, "L3 file"), plural.Or(l3Files, "its", "their"))
}

// l3Instead goes on in an error.
func l3Instead(l3Files int) string {
	if l3Files == 0 {
		return ""
	}
	return "; " + notMeasured(l3Files)
}

// IsL3 tells whether a codec is a coding of L3.
func IsL3(codec string) bool { return strings.HasPrefix(Title(codec), "L3 ") }
