// Package bench measures codecs side by side on the images of a folder: how
// large they make them, and how fast they encode and decode them, on one core
// and on all.
//
// Measured are the codings of L3, and beside them, where they are installed, PNG
// and lossless WebP by Pillow and JPEG XL by its own programs. Pillow runs in one
// Python process that does as it is told (pillow.py); a program that is missing
// is named in the report, and the others are measured without it.
//
// Figures depend on the machine, and machines are noisy. So everything is
// measured in turns: a round decodes every image by every codec, and an image's
// time is the shortest of all rounds, which is what the code can do when nothing
// else runs. Ratios to PNG come from the same run. Samples are in memory before
// the clock starts, and decoded into memory; no disk is measured. Before a codec
// is measured on an image, its samples have come out of it unchanged.
//
// The package prints nothing and reads no flags.
package bench
