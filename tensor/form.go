package tensor

import (
	"errors"
	"fmt"
	"strings"
)

// Container is the kind of file that a form is.
type Container uint8

// The containers. The zero value is the default form of a mount.
const (
	NPY        Container = iota // NumPy format 1.0, as numpy.save writes it
	PNG                         // PNG of stored deflate blocks
	PPM                         // Netpbm: P6 for colour, P5 for grey
	Raw                         // the bare samples
	L3                          // the stored L3 file, not decoded
	JPG                         // the stored JPEG, not decoded
	Orig                        // PNG, under the name that the image had before it was packed
	containers                  // their number
)

// containerNames are the terms of a view that name the containers.
var containerNames = [containers]string{"npy", "png", "ppm", "raw", "l3", "jpg", "orig"}

// String returns the term of a view that names the container.
func (c Container) String() string {
	if c < containers {
		return containerNames[c]
	}
	return fmt.Sprintf("Container(%d)", uint8(c))
}

// ParseContainer returns the container that a term of a view names.
func ParseContainer(term string) (Container, bool) {
	for c, name := range containerNames {
		if name == term {
			return Container(c), true
		}
	}
	return 0, false
}

// Form is one of the forms in which an image can be read. The zero value is
// the default, npy.
type Form struct {
	Container Container
	CHW       bool // channels first: C×H×W instead of H×W×C; grey is 1×H×W
	RGB       bool // three 8-bit channels, whatever is stored
	Wide      bool // the term 16: samples of 16 bits are permitted in ppm
}

// ErrForm is wrapped by the errors of Form.Check.
var ErrForm = errors.New("impossible form")

// Check returns an error that wraps ErrForm when no file could have the form,
// whatever the image: chw goes with npy and raw, 16 with ppm, rgb with every
// container that is decoded, and rgb leaves no 16 bits to permit.
func (f Form) Check() error {
	switch {
	case f.Container >= containers:
		return fmt.Errorf("%w: container %d", ErrForm, uint8(f.Container))
	case f.CHW && f.Container != NPY && f.Container != Raw:
		return fmt.Errorf("%w: chw goes with npy and raw, not with %v", ErrForm, f.Container)
	case f.Wide && f.Container != PPM:
		return fmt.Errorf("%w: 16 goes with ppm, not with %v", ErrForm, f.Container)
	case f.RGB && !f.Decoded():
		return fmt.Errorf("%w: %v is the stored bytes, which rgb cannot change", ErrForm, f.Container)
	case f.RGB && f.Wide:
		return fmt.Errorf("%w: rgb makes 8 bits of every sample, which leaves none for 16", ErrForm)
	}
	return nil
}

// Suffix returns how the names of such files end, "" for Orig, whose files
// have names of their own.
func (f Form) Suffix() string {
	if f.Container >= Orig {
		return ""
	}
	return "." + containerNames[f.Container]
}

// Decoded reports whether the file is made from samples. L3 and JPG are not:
// they are the stored bytes, and have no Layout.
func (f Form) Decoded() bool { return f.Container != L3 && f.Container != JPG }

// HoldsAll reports whether the form never refuses an image for its shape, so
// that a directory can be listed without looking at the shapes in it. (Whether
// a sample has stored bytes of the kind that L3 and JPG name is not a question
// of shape.)
func (f Form) HoldsAll() bool {
	switch f.Container {
	case NPY, Raw:
		return !f.RGB
	case L3, JPG:
		return true
	}
	return false
}

// String returns the form as the terms of a view: "npy", "png+rgb".
func (f Form) String() string {
	var b strings.Builder
	b.WriteString(f.Container.String())
	if f.CHW {
		b.WriteString("+chw")
	}
	if f.RGB {
		b.WriteString("+rgb")
	}
	if f.Wide {
		b.WriteString("+16")
	}
	return b.String()
}
