package l3

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"prismfs/internal/testfiles"
	"prismfs/raster"
)

// documentedDumps returns what docs/format-l3.md dumps.
func documentedDumps(t *testing.T) [][]byte {
	t.Helper()
	doc, err := os.Open(filepath.Join(testfiles.Root(), "docs", "format-l3.md"))
	if err != nil {
		t.Fatal(err)
	}
	defer doc.Close()
	var dumps [][]byte
	inside := false
	for lines := bufio.NewScanner(doc); lines.Scan(); {
		switch {
		case lines.Text() == "```hexdump":
			dumps = append(dumps, nil)
			inside = true
		case lines.Text() == "```":
			inside = false
		case inside:
			_, digits, _ := strings.Cut(lines.Text(), "  ")
			b, err := hex.DecodeString(strings.ReplaceAll(digits, " ", ""))
			if err != nil {
				t.Fatal(err)
			}
			last := len(dumps) - 1
			dumps[last] = append(dumps[last], b...)
		}
	}
	return dumps
}

// TestDocumentedExamples decodes the files that docs/format-l3.md dumps.
func TestDocumentedExamples(t *testing.T) {
	grey := []byte{10, 12, 14, 16, 18, 11, 13, 15, 17, 19, 12, 14, 16, 18, 21}
	wants := map[Coding]raster.Image{
		Fast8:  {Shape: shapeOf(3, 5, 1, raster.Uint8), Pix: grey},
		Dense8: {Shape: shapeOf(3, 5, 1, raster.Uint8), Pix: grey},
		Dense16: {Shape: shapeOf(2, 4, 1, raster.Uint16), Pix: []byte{
			0xf4, 1, 0xf6, 1, 0x1c, 2, 0, 0, // 500 502 540 0
			0xf5, 1, 0xf7, 1, 0x1d, 2, 0, 0, // 501 503 541 0
		}},
	}
	for _, file := range documentedDumps(t) {
		if !IsL3(file) {
			continue
		}
		info, pix := mustDecode(t, file)
		want, ok := wants[info.Coding]
		if !ok {
			t.Errorf("an example of the %v coding that nobody expects", info.Coding)
			continue
		}
		if info.Shape != want.Shape || !bytes.Equal(pix, want.Pix) {
			t.Errorf("%v coding: %v with samples %d, want %v, %d", info.Coding, info.Shape, pix, want.Shape, want.Pix)
		}
		if !bytes.Equal(slowDecode(file), pix) {
			t.Errorf("%v coding: the specification gives other samples", info.Coding)
		}
		delete(wants, info.Coding)
	}
	for coding := range wants {
		t.Errorf("no example of the %v coding", coding)
	}
}

// TestDocumentedTables compares the built-in table sets with those in
// docs/format-l3.md.
func TestDocumentedTables(t *testing.T) {
	dumps := documentedDumps(t)
	for name, set := range map[string][]byte{"set 0 of coding 2": dense8Set0} {
		if !slices.ContainsFunc(dumps, func(dump []byte) bool { return bytes.Equal(dump, set) }) {
			t.Errorf("%s is not in the document as it is in the program", name)
		}
	}
}
