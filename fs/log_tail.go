package fs

import (
	"bytes"
	"sync"
)

// tailBytes is how much of the log .prismfs/log shows.
const tailBytes = 64 << 10

// logTail keeps the last whole lines that are written to it.
type logTail struct {
	mu   sync.Mutex
	text []byte
}

// Write takes one or more lines.
func (t *logTail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	// Cut at twice the size, so that not every line moves the text.
	if len(t.text) > 2*tailBytes {
		t.text = append(t.text[:0], lastLines(t.text)...)
	}
	return len(p), nil
}

// String returns the last lines.
func (t *logTail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(lastLines(t.text))
}

// lastLines returns the whole lines among the last tailBytes.
func lastLines(text []byte) []byte {
	if len(text) <= tailBytes {
		return text
	}
	cut := text[len(text)-tailBytes:]
	if nl := bytes.IndexByte(cut, '\n'); nl >= 0 {
		cut = cut[nl+1:]
	}
	return cut
}
