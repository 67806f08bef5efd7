package l3

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"prismfs/internal/testfiles"
	"prismfs/raster"
)

// TestDocumentedExample decodes the file that docs/format-l3.md dumps.
func TestDocumentedExample(t *testing.T) {
	doc, err := os.Open(filepath.Join(testfiles.Root(), "docs", "format-l3.md"))
	if err != nil {
		t.Fatal(err)
	}
	defer doc.Close()
	var file []byte
	lines := bufio.NewScanner(doc)
	for lines.Scan() && lines.Text() != "```hexdump" {
	}
	for lines.Scan() && lines.Text() != "```" {
		_, digits, _ := strings.Cut(lines.Text(), "  ")
		b, err := hex.DecodeString(strings.ReplaceAll(digits, " ", ""))
		if err != nil {
			t.Fatal(err)
		}
		file = append(file, b...)
	}
	info, pix := mustDecode(t, file)
	if want := shapeOf(3, 5, 1, raster.Uint8); info.Shape != want || info.Coding != Fast8 {
		t.Errorf("%v in %v coding", info.Shape, info.Coding)
	}
	want := []byte{10, 12, 14, 16, 18, 11, 13, 15, 17, 19, 12, 14, 16, 18, 21}
	if !bytes.Equal(pix, want) {
		t.Errorf("samples %d, want %d", pix, want)
	}
}
