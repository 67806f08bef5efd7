package bench

import (
	"bufio"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"prismfs/raster"
)

//go:embed pillow.py
var pillowScript string

// The formats that Pillow is measured with.
const (
	pngFormat  = "png"
	webpFormat = "webp"
)

// pythonVariable names the Python to take instead of those of PATH.
const pythonVariable = "PYTHON"

// pillow is a Python process that runs pillow.py.
type pillow struct {
	version string // of Pillow, for people
	webp    bool
	jobs    int
	cmd     *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
}

// startPillow starts the Python that PYTHON names, and no other: a comparison
// with another Pillow than the one asked for would mislead. Without PYTHON it
// starts the first one of PATH that has Pillow.
func startPillow(ctx context.Context, jobs int) (*pillow, error) {
	if named := os.Getenv(pythonVariable); named != "" {
		return startNamed(ctx, named, jobs)
	}
	candidates := pythons()
	if len(candidates) == 0 {
		return nil, errors.New("there is no python3 in PATH")
	}
	var failure error
	for _, python := range candidates {
		p, err := startPython(ctx, python, jobs)
		if err == nil {
			return p, nil
		}
		if failure == nil {
			failure = fmt.Errorf("%s: %w", python, err)
		}
	}
	return nil, failure
}

// startNamed starts the Python that PYTHON names.
func startNamed(ctx context.Context, named string, jobs int) (*pillow, error) {
	path, err := exec.LookPath(named)
	if err != nil {
		return nil, fmt.Errorf("%s=%s cannot be run: %w", pythonVariable, named, err)
	}
	p, err := startPython(ctx, path, jobs)
	if err != nil {
		return nil, fmt.Errorf("%s=%s has no Pillow that works: %w", pythonVariable, named, err)
	}
	return p, nil
}

// pythons returns python3 of every folder of PATH, since not each has Pillow.
func pythons() []string {
	var found []string
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		path := filepath.Join(dir, "python3")
		if info, err := os.Stat(path); filepath.IsAbs(dir) && err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			found = append(found, path)
		}
	}
	return found
}

func startPython(ctx context.Context, python string, jobs int) (*pillow, error) {
	p := &pillow{jobs: jobs, cmd: exec.CommandContext(ctx, python, "-c", pillowScript)}
	// Its own process group, so that its children end with it.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.cmd.Cancel = func() error { return syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) }
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = bufio.NewReader(out)
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	about, err := p.ask(request{Op: "about"})
	if err != nil {
		p.close()
		return nil, err
	}
	p.version, p.webp = "Pillow "+about.Version, about.WebP
	return p, nil
}

// close ends the process.
func (p *pillow) close() {
	p.in.Close()
	p.cmd.Wait()
}

// has returns an error unless this Pillow knows a format.
func (p *pillow) has(format string) error {
	if format == webpFormat && !p.webp {
		return fmt.Errorf("%s was built without it", p.version)
	}
	return nil
}

// request is a line to the script, answer one from it.
type request struct {
	Op     string   `json:"op"`
	Codec  string   `json:"codec,omitempty"`
	Raw    string   `json:"raw,omitempty"`
	Path   string   `json:"path,omitempty"`
	Paths  []string `json:"paths,omitempty"`
	Mode   string   `json:"mode,omitempty"`
	Width  int      `json:"width,omitempty"`
	Height int      `json:"height,omitempty"`
	Jobs   int      `json:"jobs,omitempty"`
}

type answer struct {
	Error   string  `json:"error"`
	Version string  `json:"version"`
	WebP    bool    `json:"webp"`
	Bytes   int64   `json:"bytes"`
	Seconds float64 `json:"seconds"`
	Exact   bool    `json:"exact"`
}

func (a answer) took() time.Duration { return time.Duration(a.Seconds * float64(time.Second)) }

func (p *pillow) ask(r request) (answer, error) {
	line, err := json.Marshal(r)
	if err != nil {
		return answer{}, err
	}
	// Where the process has ended, what it said last says why.
	_, writeErr := p.in.Write(append(line, '\n'))
	said, err := p.out.ReadBytes('\n')
	if err != nil {
		return answer{}, errors.Join(fmt.Errorf("the Python process has ended: %w", err), writeErr)
	}
	var a answer
	if err := json.Unmarshal(said, &a); err != nil {
		return answer{}, fmt.Errorf("the Python process answers %.80q: %w", said, err)
	}
	if a.Error != "" {
		return answer{}, errors.New(a.Error)
	}
	return a, nil
}

// pillowCodec is a format of Pillow.
type pillowCodec struct {
	p      *pillow
	format string
}

func (c pillowCodec) name() string { return c.format }

func (c pillowCodec) takes(image *sourceImage) bool { return pillowMode(image.Shape, c.format) != "" }

// pillowMode returns Pillow's name for the samples of an image, "" for what it
// has no name for or the format no place.
func pillowMode(s raster.Shape, format string) string {
	switch {
	case s.DType == raster.Uint8:
		return []string{"L", "LA", "RGB", "RGBA"}[s.Channels-1]
	case s.Channels == 1 && format == pngFormat:
		return "I;16"
	}
	return ""
}

func (c pillowCodec) encode(_ context.Context, image *sourceImage) (*stored, error) {
	raw, err := image.rawFile()
	if err != nil {
		return nil, err
	}
	path := image.scratch + "." + c.format
	a, err := c.p.ask(request{
		Op: "encode", Codec: c.format, Raw: raw, Path: path,
		Mode: pillowMode(image.Shape, c.format), Width: image.Width, Height: image.Height,
	})
	if err != nil {
		return nil, err
	}
	if !a.Exact {
		return nil, errInexact
	}
	return &stored{image: image, bytes: a.Bytes, encode: a.took(), path: path}, nil
}

func (c pillowCodec) decode(_ context.Context, s *stored) (time.Duration, error) {
	a, err := c.p.ask(request{Op: "decode", Path: s.path})
	return a.took(), err
}

func (c pillowCodec) decodeAll(_ context.Context, all []*stored) (time.Duration, error) {
	paths := make([]string, len(all))
	for i, s := range all {
		paths[i] = s.path
	}
	a, err := c.p.ask(request{Op: "decode_all", Paths: paths, Jobs: c.p.jobs})
	return a.took(), err
}
