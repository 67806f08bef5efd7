package integration

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"prismfs/internal/testfiles"
)

// args are the arguments of a check, by the names that checks.py gives them.
type args map[string]any

// checkTimeout ends a check that hangs.
const checkTimeout = 4 * time.Minute

// reader is the program that reads mounts (checks.py).
type reader struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser

	mu      sync.Mutex
	lastID  int
	waiting map[int]chan message
	pids    map[int]int
	ended   error // why no more answers come
}

// message is a line of checks.py.
type message struct {
	ID    int             `json:"id"`
	PID   int             `json:"pid"`
	OK    json.RawMessage `json:"ok"`
	Error string          `json:"error"`
}

var (
	readerOnce   sync.Once
	sharedReader *reader
	readerErr    error
)

// startReader starts the one reader of all tests and waits until it has
// imported what it needs.
func startReader() (*reader, error) {
	r := &reader{waiting: map[int]chan message{}, pids: map[int]int{}}
	r.cmd = exec.Command(python(), filepath.Join(testfiles.Root(), "integration", "checks.py"))
	r.cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "OMP_NUM_THREADS=1")
	r.cmd.Stderr = os.Stderr
	stdin, err := r.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := r.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := r.cmd.Start(); err != nil {
		return nil, err
	}
	r.stdin = stdin
	ready := make(chan message, 2)
	r.waiting[0] = ready
	go r.listen(stdout)
	select {
	case m := <-ready:
		if m.Error != "" {
			return nil, fmt.Errorf("checks.py: %s", m.Error)
		}
	case <-time.After(2 * time.Minute):
		return nil, fmt.Errorf("checks.py did not start")
	}
	return r, nil
}

// listen hands answers to those who wait for them.
func (r *reader) listen(stdout io.Reader) {
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		var m message
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			fmt.Fprintf(os.Stderr, "checks.py said %q\n", lines.Text())
			continue
		}
		r.mu.Lock()
		if m.PID != 0 {
			r.pids[m.ID] = m.PID
		} else if answer := r.waiting[m.ID]; answer != nil {
			delete(r.waiting, m.ID)
			answer <- m
		}
		r.mu.Unlock()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = fmt.Errorf("checks.py ended (%v)", lines.Err())
	for id, answer := range r.waiting {
		answer <- message{ID: id, Error: r.ended.Error()}
	}
	clear(r.waiting)
}

// ask sends a request and returns where its answer will arrive.
func (r *reader) ask(check string, a args) (int, <-chan message, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended != nil {
		return 0, nil, r.ended
	}
	r.lastID++
	line, err := json.Marshal(map[string]any{"id": r.lastID, "check": check, "args": a})
	if err != nil {
		return 0, nil, err
	}
	answer := make(chan message, 1)
	r.waiting[r.lastID] = answer
	_, err = r.stdin.Write(append(line, '\n'))
	return r.lastID, answer, err
}

// kill ends a check and what it has started.
func (r *reader) kill(id int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if pid := r.pids[id]; pid > 0 {
		_ = syscall.Kill(-pid, syscall.SIGKILL)
	}
}

// stopReader ends the reader, if there is one.
func stopReader() {
	if sharedReader == nil {
		return
	}
	_ = sharedReader.stdin.Close()
	_ = sharedReader.cmd.Wait()
}

// check has the reader run a check and fails the test with what it finds wrong.
func check(t *testing.T, name string, a args) json.RawMessage {
	t.Helper()
	readerOnce.Do(func() { sharedReader, readerErr = startReader() })
	if readerErr != nil {
		t.Fatal("starting checks.py:", readerErr)
	}
	id, answer, err := sharedReader.ask(name, a)
	if err != nil {
		t.Fatalf("asking for %s: %v", name, err)
	}
	started := time.Now()
	select {
	case m := <-answer:
		if m.Error != "" {
			t.Fatalf("%s: %s", name, m.Error)
		}
		t.Logf("%s: %.1f s %.200s", name, time.Since(started).Seconds(), m.OK)
		return m.OK
	case <-time.After(checkTimeout):
		sharedReader.kill(id)
		t.Fatalf("%s did not end within %v", name, checkTimeout)
		return nil
	}
}

// checkInto is check for a result that the test looks at.
func checkInto(t *testing.T, result any, name string, a args) {
	t.Helper()
	if err := json.Unmarshal(check(t, name, a), result); err != nil {
		t.Fatalf("result of %s: %v", name, err)
	}
}
