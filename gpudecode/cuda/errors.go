package cuda

import (
	"errors"
	"fmt"
)

// Code is a CUresult.
type Code int32

// Codes that callers tell apart.
const (
	Success     Code = 0
	OutOfMemory Code = 2
	NoDevice    Code = 100
)

// harmless are codes of calls that were refused, after which the context works
// as before. All others mean that it may not, and most that it does not: the
// driver calls such errors sticky, and gives new ones with new versions.
var harmless = map[Code]bool{
	1:   true, // invalid value
	2:   true, // out of memory
	34:  true, // stub library
	100: true, // no device
	101: true, // invalid device
	200: true, // invalid image
	209: true, // no binary for the device
	218: true, // invalid PTX
	221: true, // no JIT compiler
	222: true, // PTX of a newer version
	223: true, // JIT compilation disabled
	301: true, // file not found
	400: true, // invalid handle
	500: true, // not found
	600: true, // not ready
	701: true, // launch out of resources
	801: true, // not supported
}

// An Error is what a call of the driver returned.
type Error struct {
	Call   string
	Code   Code
	Name   string // as the driver names it
	Detail string // what it said beside that, such as the log of a compiler
}

// Error implements error.
func (e *Error) Error() string {
	s := fmt.Sprintf("%s: %s (%d)", e.Call, e.Name, int32(e.Code))
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	return s
}

// ErrorCode returns the code of an error of the driver, Success for others.
func ErrorCode(err error) Code {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return Success
}

// Lost reports whether, after this error, the device is to be closed: whatever
// is asked of it next fails as well.
func Lost(err error) bool {
	var e *Error
	return errors.As(err, &e) && !harmless[e.Code]
}
