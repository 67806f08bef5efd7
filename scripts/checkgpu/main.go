// Command checkgpu tells whether the GPU of this machine decodes as it should, and
// how fast: every kernel against the samples that images were made with, damaged
// files among them, then the decoder that a mount uses, then throughput, through a
// mount as well where there is FUSE. It needs the NVIDIA driver and prismfs, and
// makes its images on the spot. A table comes last.
//
// Exit status: 0 all was right, 1 something was wrong or failed, 2 there is no GPU
// to be checked.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"prismfs/gpudecode"
	"prismfs/gpudecode/cuda"
	"prismfs/gpudecode/nvml"
)

// The exit statuses.
const (
	statusRight = 0
	statusWrong = 1
	statusNoGPU = 2
)

// options are the flags.
type options struct {
	device  string
	prismfs string        // the command, for the mount
	each    time.Duration // of a measurement
	quick   bool
}

// longest ends a run whose device hangs.
const longest = 220 * time.Second

func main() {
	var opt options
	flag.StringVar(&opt.device, "device", "", "index or UUID of the GPU (default: the freest)")
	flag.StringVar(&opt.prismfs, "prismfs", "bin/prismfs", "the command to mount with")
	flag.DurationVar(&opt.each, "each", 1500*time.Millisecond, "time for each measurement")
	flag.BoolVar(&opt.quick, "quick", false, "small images: to see that everything runs, not how fast")
	flag.Parse()
	time.AfterFunc(longest, func() {
		fmt.Fprintf(os.Stderr, "checkgpu: not done after %v\n", longest)
		leaveMount(opt)
		os.Exit(statusWrong)
	})
	os.Exit(run(context.Background(), opt, os.Stdout))
}

// run checks and measures, and returns the exit status.
func run(ctx context.Context, opt options, out io.Writer) int {
	err := all(ctx, opt, out)
	switch {
	case noGPU(err):
		fmt.Fprintln(out, "no GPU was checked:", err)
		return statusNoGPU
	case err != nil:
		fmt.Fprintln(out, "WRONG:", err)
		return statusWrong
	}
	fmt.Fprintln(out, "all is right")
	return statusRight
}

// noGPU tells a machine without a GPU, or without the one that is asked for, from
// one whose GPU cannot be used.
func noGPU(err error) bool {
	return errors.Is(err, cuda.ErrNoLibrary) || errors.Is(err, nvml.ErrNoDevice) || cuda.ErrorCode(err) == cuda.NoDevice
}

func all(ctx context.Context, opt options, out io.Writer) error {
	// Opening is what tells whether there is a device at all.
	quiet := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	decoder, err := gpudecode.Open(gpudecode.Options{Backend: gpudecode.BackendCUDA, Device: opt.device, Logger: quiet})
	if err != nil {
		return err
	}
	defer decoder.Close()
	fmt.Fprintln(out, "device:", decoder.Stats().Device.Name)
	c, err := openCard(decoder.Stats().Device.Name)
	if err != nil {
		return err
	}
	defer c.close()

	samples, err := makeSamples(opt.quick)
	if err != nil {
		return err
	}
	said, err := checkKernels(c, samples)
	if err != nil {
		return fmt.Errorf("kernels: %w", err)
	}
	fmt.Fprintln(out, "kernels:", said)
	if said, err = checkDecoder(ctx, decoder, samples); err != nil {
		return fmt.Errorf("decoder: %w", err)
	}
	fmt.Fprintln(out, "decoder:", said)
	return measure(ctx, opt, c, decoder, out)
}
