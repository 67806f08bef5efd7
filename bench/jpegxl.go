package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"

	"prismfs/internal/imagefile"
	"prismfs/raster"
)

// jpegXLEffort is the effort of cjxl: the one made for speed.
const jpegXLEffort = "1"

// jpegXL is JPEG XL without loss by the programs of libjxl. They tell their
// speed themselves, without the start of a process.
type jpegXL struct {
	version      string
	cjxl, djxl   string
	discard      []string // arguments by which djxl writes no file
	jobs         int
	pixelsPerSec *regexp.Regexp
}

// findJPEGXL looks for the programs in PATH.
func findJPEGXL(ctx context.Context, jobs int) (*jpegXL, error) {
	j := &jpegXL{jobs: jobs, pixelsPerSec: regexp.MustCompile(`([0-9.]+) MP/s`)}
	var err error
	if j.cjxl, err = exec.LookPath("cjxl"); err != nil {
		return nil, err
	}
	if j.djxl, err = exec.LookPath("djxl"); err != nil {
		return nil, err
	}
	out, err := exec.CommandContext(ctx, j.djxl, "--version").CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%s --version: %w", j.djxl, err)
	}
	j.version = firstLine(out)
	// Later versions want to be told that they shall write nothing.
	help, _ := exec.CommandContext(ctx, j.djxl, "--help", "-v").CombinedOutput()
	if bytes.Contains(help, []byte("--disable_output")) {
		j.discard = []string{"--disable_output"}
	}
	return j, nil
}

func firstLine(b []byte) string {
	line, _, _ := strings.Cut(string(b), "\n")
	return strings.TrimSpace(line)
}

func (j *jpegXL) name() string { return "jpeg-xl" }

func (j *jpegXL) takes(*sourceImage) bool { return true }

func (j *jpegXL) encode(ctx context.Context, image *sourceImage) (*stored, error) {
	source, err := writePNG(image)
	if err != nil {
		return nil, err
	}
	s := &stored{image: image, path: image.scratch + ".jxl"}
	said, err := j.run(ctx, j.cjxl, source, s.path, "-d", "0", "-e", jpegXLEffort, "--num_threads=0")
	if err != nil {
		return nil, err
	}
	if s.encode, err = j.took(said, image); err != nil {
		return nil, err
	}
	info, err := os.Stat(s.path)
	if err != nil {
		return nil, err
	}
	s.bytes = info.Size()
	return s, j.check(ctx, s)
}

// writePNG writes the input of cjxl.
func writePNG(image *sourceImage) (string, error) {
	img := image.unsigned()
	if img.Color == raster.Other {
		img.Color = raster.Color(img.Channels) // Grey to RGBA have 1 to 4
	}
	var b bytes.Buffer
	if err := imagefile.EncodePNG(&b, img); err != nil {
		return "", err
	}
	path := image.scratch + ".source.png"
	return path, os.WriteFile(path, b.Bytes(), 0o600)
}

// check compares what djxl makes of a file with the source.
func (j *jpegXL) check(ctx context.Context, s *stored) error {
	decoded := s.image.scratch + ".decoded.png"
	if _, err := j.run(ctx, j.djxl, s.path, decoded); err != nil {
		return err
	}
	defer os.Remove(decoded)
	data, err := os.ReadFile(decoded)
	if err != nil {
		return err
	}
	got, err := imagefile.Decode(data, imagefile.Limits{MaxPixels: maxSampleBytes})
	if err != nil {
		return err
	}
	if got.Height != s.image.Height || got.Width != s.image.Width || !bytes.Equal(got.Pix, s.image.unsigned().Pix) {
		return errInexact
	}
	return nil
}

func (j *jpegXL) decode(ctx context.Context, s *stored) (time.Duration, error) {
	return j.decodeWith(ctx, s, 1)
}

// decodeAll decodes one image after another, each on all cores.
func (j *jpegXL) decodeAll(ctx context.Context, all []*stored) (time.Duration, error) {
	var sum time.Duration
	for _, s := range all {
		took, err := j.decodeWith(ctx, s, j.jobs)
		if err != nil {
			return 0, err
		}
		sum += took
	}
	return sum, nil
}

func (j *jpegXL) decodeWith(ctx context.Context, s *stored, threads int) (time.Duration, error) {
	args := append([]string{s.path, "--num_threads=" + strconv.Itoa(threads)}, j.discard...)
	said, err := j.run(ctx, j.djxl, args...)
	if err != nil {
		return 0, err
	}
	return j.took(said, s.image)
}

func (j *jpegXL) run(ctx context.Context, program string, args ...string) ([]byte, error) {
	said, err := exec.CommandContext(ctx, program, args...).CombinedOutput()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %.200s", program, err, bytes.TrimSpace(said))
	}
	return said, nil
}

// took is the time for an image at the speed that a program says it had. It
// says it last; cjxl says first how fast its input was read.
func (j *jpegXL) took(said []byte, image *sourceImage) (time.Duration, error) {
	all := j.pixelsPerSec.FindAllSubmatch(said, -1)
	if len(all) == 0 {
		return 0, errors.New("the program does not say how fast it was")
	}
	speed, err := strconv.ParseFloat(string(all[len(all)-1][1]), 64)
	if err != nil || speed <= 0 {
		return 0, fmt.Errorf("the program says that it does %q megapixels a second", all[len(all)-1][1])
	}
	return time.Duration(float64(image.Pixels()) / (speed * 1e6) * float64(time.Second)), nil
}
