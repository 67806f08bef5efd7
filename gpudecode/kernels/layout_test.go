package kernels

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// camel is a Go name of a C one.
func camel(name string) string {
	var b strings.Builder
	for _, part := range strings.Split(name, "_") {
		if part == "crc" {
			part = "CRC"
		}
		if part != "" {
			b.WriteString(strings.ToUpper(part[:1]) + part[1:])
		}
	}
	return b.String()
}

// structs are the C names of the Go types.
var structs = map[string]reflect.Type{
	"image":          reflect.TypeFor[Image](),
	"patch":          reflect.TypeFor[Patch](),
	"dense8_tables":  reflect.TypeFor[Dense8Tables](),
	"dense16_tables": reflect.TypeFor[Dense16Tables](),
	"labels_tables":  reflect.TypeFor[LabelsTables](),
}

// fields of the structs, by their C names.
var fields = map[string][]string{
	"image": {"pixels", "pixel_bytes", "row_step", "channel_step", "pixel_step", "tables", "ranks", "rank_count", "hole",
		"flip", "palette_size", "channels", "sample_bytes", "log_streams", "raw_bits"},
	"patch":          {"start", "length", "crc", "image", "x", "y", "width", "height", "kind"},
	"dense8_tables":  {"contexts", "slots"},
	"dense16_tables": {"contexts", "slots"},
	"labels_tables":  {"table_of", "bounds", "palette"},
}

// numbers are macros of layout.h and what Go has for them.
var numbers = map[string]uint64{
	"NO_HOLE": NoHole, "LANES": WarpLanes, "WARPS": BlockWarps, "BLOCK_THREADS": BlockThreads,
	"STATUS_OK": uint64(StatusOK), "STATUS_WAITING": uint64(StatusWaiting), "STATUS_BAD_CHECKSUM": uint64(StatusBadChecksum),
	"STATUS_BAD_PLACE": uint64(StatusBadPlace), "STATUS_BAD_HEAD": uint64(StatusBadHead), "STATUS_RAN_OUT": uint64(StatusRanOut),
	"STATUS_LEFT_OVER": uint64(StatusLeftOver), "STATUS_BAD_VALUE": uint64(StatusBadValue),
	"STATUS_BAD_WIDTH": uint64(StatusBadWidth), "STATUS_BAD_EXCEPTION": uint64(StatusBadException),
}

// TestLayout has a C compiler check sizes, offsets and numbers of layout.h against
// those of Go.
func TestLayout(t *testing.T) {
	compiler, err := exec.LookPath("g++")
	if err != nil {
		t.Skip("no g++")
	}
	var b strings.Builder
	b.WriteString("#include <cstddef>\n#include \"layout.h\"\n")
	for name, goType := range structs {
		fmt.Fprintf(&b, "static_assert(sizeof(%s) == %d, \"size of %s\");\n", name, goType.Size(), name)
		for _, field := range fields[name] {
			f, ok := goType.FieldByName(camel(field))
			if !ok {
				t.Fatalf("%v has no field for %s", goType, field)
			}
			fmt.Fprintf(&b, "static_assert(offsetof(%s, %s) == %d && sizeof(%s::%s) == %d, \"%s of %s\");\n",
				name, field, f.Offset, name, field, f.Type.Size(), field, name)
		}
		if got, want := len(fields[name]), namedFields(goType); got != want {
			t.Errorf("%d fields of %v are compared, it has %d", got, goType, want)
		}
	}
	for name, value := range numbers {
		fmt.Fprintf(&b, "static_assert(%s == %d, \"%s\");\n", name, value, name)
	}
	source := filepath.Join(t.TempDir(), "layout.cpp")
	check(t, os.WriteFile(source, []byte(b.String()), 0o600))
	if out, err := exec.Command(compiler, "-std=c++17", "-fsyntax-only", "-I.", source).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func namedFields(t reflect.Type) int {
	n := 0
	for i := range t.NumField() {
		if t.Field(i).Name != "_" {
			n++
		}
	}
	return n
}

// TestStatusNames checks that every status has a name.
func TestStatusNames(t *testing.T) {
	if got, want := len(statusNames), int(StatusBadException)+1; got != want {
		t.Errorf("%d names of %d statuses", got, want)
	}
	if got := Status(99).String(); got != "unknown status" {
		t.Errorf("status 99 is %q", got)
	}
}
