package fs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"prismfs/cache"
	"prismfs/order"
)

// plannedMount is a mount that nobody has mounted, with a control socket, a cache,
// and images train/cat/000.l3 and so on.
func plannedMount(t *testing.T, images int, log *bytes.Buffer) *mount {
	t.Helper()
	m := controlledMount(t, log)
	m.opt.Mountpoint = "/mnt/x"
	for i := range images {
		writeSample(t, filepath.Join(m.opt.Source, fmt.Sprintf("train/cat/%03d.l3", i)), rgb8, "")
	}
	if err := os.WriteFile(filepath.Join(m.opt.Source, "train/readme.txt"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	var err error
	if m.cache, err = cache.New[bufferKey](cache.Options{Budget: 64 << 20, Medium: cache.NewMemory(0)}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		m.plans.close()
		m.cache.Close()
	})
	return m
}

// waitFor waits until something has come about.
func waitFor(t *testing.T, what string, come func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !come(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s has not come about", what)
		}
	}
}

func TestPlanRequests(t *testing.T) {
	var log bytes.Buffer
	m := plannedMount(t, 4, &log)
	good := "train/cat/000.npy\n/mnt/x/train/cat/001.npy\n/data/link/train+png/cat/002.png\nnone.npy\n"
	tooMany := strings.Repeat("a\n", 1000)
	for _, c := range []struct {
		method, target, body string
		status               int
		want                 string // in the answer
	}{
		{"GET", "/plan", "", 200, `{ "plans": [] }`},
		{"DELETE", "/plan", "", 404, "no plan default"},
		{"PUT", "/plan", "", 400, "no lines"},
		{"PUT", "/plan", "../x", 400, "line 1"},
		{"PUT", "/plan", "/etc/passwd", 400, "not below /mnt/x"},
		{"PUT", "/plan", "a\x00b", 400, "zero byte"},
		{"PUT", "/plan", strings.Repeat("x", 5000), 400, "4096 bytes"},
		{"PUT", "/plan", "dog.npy\ncow.npy", 400, `\"dog.npy\", and others`},
		{"PUT", "/plan", tooMany, 400, "no file of the mount"},
		{"PUT", "/plan?name=a%20b", good, 400, "plan name"},
		{"PUT", "/plan?start=x", good, 400, "start"},
		{"PUT", "/plan?start=-1", good, 400, "start"},
		{"PUT", "/plan?prefix=/data/link&start=5", good, 400, "start at line 5"},
		{"GET", "/plan", "", 200, `{ "plans": [] }`},
		{"PUT", "/plan?prefix=/data/link&start=1", good, 200, `"name": "default", "lines": 4, "start": 1, "place": 1,`},
		{"PUT", "/plan?name=rank-1&prefix=/data/link", good, 200, `"name": "rank-1", "lines": 4, "start": 0,`},
		{"GET", "/plan", "", 200, `"name": "rank-1"`},
		{"PUT", "/plan?name=rank-1", "..", 400, "line 1"},
		{"GET", "/plan", "", 200, `"name": "rank-1", "lines": 4`},
		{"DELETE", "/plan?name=rank-1", "", 200, `{ "removed": "rank-1" }`},
		{"DELETE", "/plan?name=rank-1", "", 404, "no plan rank-1"},
		{"POST", "/plan", good, 405, "Not Allowed"},
	} {
		status, text := request(t, m, c.method, c.target, c.body)
		if status != c.status || !strings.Contains(text, c.want) {
			t.Errorf("%s %s %.80s: %d %s, want %d with %s", c.method, c.target, c.body, status, text, c.status, c.want)
		}
	}
	if n := strings.Count(log.String(), "a plan was taken"); n != 2 {
		t.Errorf("%d plans are logged of 2:\n%s", n, &log)
	}
}

// TestPlanIsFollowed: what a plan says is decoded before it is opened, in any
// view, and opens are found again.
func TestPlanIsFollowed(t *testing.T) {
	m := plannedMount(t, 40, new(bytes.Buffer))
	var body strings.Builder
	var lines []string
	for i := range 40 {
		line := fmt.Sprintf("train/cat/%03d.npy", (i*7)%40)
		if i%3 == 0 {
			line = fmt.Sprintf("train+png/cat/%03d.png", (i*7)%40)
		}
		lines = append(lines, line)
		fmt.Fprintln(&body, line)
		if i%10 == 0 {
			fmt.Fprintln(&body, "train/readme.txt") // which is no image
		}
	}
	if status, text := request(t, m, "PUT", "/plan", body.String()); status != 200 {
		t.Fatal(text)
	}
	waitFor(t, "all images being made", func() bool { return m.stats().PlanMade == 40 })
	source := &planSource{m: m}
	for i, line := range lines {
		target, err := source.resolve(line)
		if err != nil {
			t.Fatal(err)
		}
		if !m.cache.Holds(target.sample.key()) {
			t.Errorf("%s was not made", line)
		}
		ino := inodeNumber(line)
		if !m.plans.wanted(ino) || !m.plans.opened(ino) || m.plans.wanted(ino) {
			t.Errorf("the open of line %d is not followed", i)
		}
	}
	if m.plans.opened(inodeNumber("train/cat/000.ppm")) {
		t.Error("a file that no plan has is taken for one of a plan")
	}
	s := m.stats()
	if s.PlanUseful != 40 || s.PlanWasted != 0 || s.PlanFailed != 0 || s.Plans != 1 || s.Decoded != 40 {
		t.Errorf("%+v", s)
	}
	if _, text := request(t, m, "GET", "/plan", ""); !strings.Contains(text, `"read": 40`) || !strings.Contains(text, `"skipped": 4`) {
		t.Error(text)
	}
	m.plans.remove(DefaultPlan)
	if m.plans.opened(inodeNumber(lines[0])) || m.stats().PlanUseful != 40 {
		t.Errorf("after the end: %+v", m.stats())
	}
}

// beginsAPlan is the head of a request for a plan, to its length.
const beginsAPlan = "PUT /plan HTTP/1.1\r\nHost: x\r\nContent-Length: "

// sendText sends the beginning of a request, or all of it.
func sendText(t *testing.T, m *mount, text string) net.Conn {
	t.Helper()
	conn, err := net.Dial("unix", m.socket.path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return conn
}

// TestPlansThatDoNotComeWhole: who breaks off, is too slow or sends too much changes
// nothing and leaves nothing behind.
func TestPlansThatDoNotComeWhole(t *testing.T) {
	m := plannedMount(t, 4, new(bytes.Buffer))
	m.plans.pause = time.Second
	if status, text := request(t, m, "PUT", "/plan?start=1", "train/cat/001.npy\ntrain/cat/002.npy\n"); status != 200 {
		t.Fatal(text)
	}
	answer := func(text string) string {
		t.Helper()
		conn := sendText(t, m, text)
		defer conn.Close()
		conn.SetReadDeadline(time.Now().Add(20 * time.Second))
		answer := make([]byte, 4096)
		n, err := conn.Read(answer)
		if err != nil {
			t.Error(err)
		}
		return string(answer[:n])
	}
	if text := answer(beginsAPlan + "3000000000\r\n\r\ntrain/cat/000.npy\n"); !strings.Contains(text, "413") || !strings.Contains(text, "Connection: close") {
		t.Errorf("gigabytes: %s", text)
	}
	if text := answer(beginsAPlan + "100\r\n\r\ntrain/cat/000.npy\n"); !strings.Contains(text, "408") {
		t.Errorf("a slow sender: %s", text)
	}
	sendText(t, m, beginsAPlan+"100\r\n\r\ntrain/cat/000.npy\n").Close()
	waitFor(t, "the end of the senders", func() bool { return m.plans.uploads.running() == 0 })
	all := m.plans.all()
	if len(all) != 1 || all[0].lines != 2 || all[0].Stats().Start != 1 {
		t.Errorf("%d plans, the first %+v", len(all), all[0].Stats())
	}
}

// TestOneSenderTooMany: as many as are let in keep another one out, until they go.
func TestOneSenderTooMany(t *testing.T) {
	m := plannedMount(t, 4, new(bytes.Buffer))
	m.plans.pause = time.Hour
	var slow []net.Conn
	for range maxPlanUploads {
		slow = append(slow, sendText(t, m, beginsAPlan+"100\r\n\r\ntrain/cat/000.npy\n"))
	}
	waitFor(t, "so many senders", func() bool { return m.plans.uploads.running() == maxPlanUploads })
	if status, text := request(t, m, "PUT", "/plan", "train/cat/000.npy\n"); status != 503 || !strings.Contains(text, "again") {
		t.Errorf("one sender too many: %d %s", status, text)
	}
	for _, conn := range slow {
		conn.Close()
	}
	waitFor(t, "the end of the senders", func() bool { return m.plans.uploads.running() == 0 })
	if n := len(m.plans.all()); n != 0 {
		t.Errorf("%d plans", n)
	}
}

// TestTooManyPlans: only plans that nobody reads by make room.
func TestTooManyPlans(t *testing.T) {
	m := plannedMount(t, 1, new(bytes.Buffer))
	put := func(name string) error {
		lines, err := order.ReadPlan(strings.NewReader("train/cat/000.npy\n"), order.PlanText{Hash: inodeNumber})
		if err != nil {
			t.Fatal(err)
		}
		_, err = m.plans.put(name, lines, 0)
		return err
	}
	for i := range maxPlans {
		if err := put(fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := put("another"); err == nil || !strings.Contains(err.Error(), "remove one") {
		t.Errorf("one too many: %v", err)
	}
	if err := put("7"); err != nil {
		t.Errorf("in the place of another: %v", err)
	}
	m.plans.remove("8")
	if err := put("another"); err != nil {
		t.Errorf("after one was removed: %v", err)
	}
	if n := len(m.plans.all()); n != maxPlans {
		t.Errorf("%d plans", n)
	}
}

// TestManySendersAtOnce: who finds the mount busy with others gets his turn, and
// who gives up does not wait for it.
func TestManySendersAtOnce(t *testing.T) {
	const senders = 20
	m := plannedMount(t, 1, new(bytes.Buffer))
	for range maxPlanUploads {
		if !m.plans.uploads.enter(1) {
			t.Fatal("the mount is busy with nothing")
		}
	}
	text := strings.Repeat("train/cat/000.npy\n", 20_000)
	var refused atomic.Int64
	send := func(ctx context.Context, name string) error {
		c := socketClient(m.socket.path)
		defer c.CloseIdleConnections()
		return sendPatiently(ctx, func() error {
			var out struct{}
			err := call(ctx, c, controlRequest{
				method: "PUT", target: "/plan?name=" + name, body: strings.NewReader(text), size: int64(len(text)), patient: true,
			}, &out)
			if err != nil {
				refused.Add(1)
			}
			return err
		})
	}
	gone, leave := context.WithCancel(t.Context())
	impatient := make(chan error, 1)
	go func() { impatient <- send(gone, "impatient") }()
	answers := make(chan error, senders)
	for i := range senders {
		go func() { answers <- send(t.Context(), fmt.Sprint("rank", i)) }()
	}
	waitFor(t, "all being refused once", func() bool { return refused.Load() > senders })
	leave()
	if err := <-impatient; !errors.Is(err, context.Canceled) {
		t.Errorf("who has gone: %v", err)
	}
	for range maxPlanUploads {
		m.plans.uploads.leave(1)
	}
	for range senders {
		if err := <-answers; err != nil {
			t.Error(err)
		}
	}
	if n := len(m.plans.all()); n != senders {
		t.Errorf("%d plans of %d", n, senders)
	}
	for range 4 { // large ones fill it before their number does
		m.plans.uploads.enter(order.MaxPlanBytes)
	}
	if m.plans.uploads.enter(1) {
		t.Error("more is taken than there is room for")
	}
}

// Lines of an echo view that cannot serve their folder are counted as failed, and one
// of them is named; a plan that has no others is refused with the reason.
func TestPlanOfRefusedEchoes(t *testing.T) {
	var log bytes.Buffer
	m := plannedMount(t, 4, &log)
	if err := os.WriteFile(filepath.Join(m.opt.Source, "train/cat/000.txt"), []byte("a cat"), 0o600); err != nil {
		t.Fatal(err)
	}
	refused := "train+echo2/cat/000.npy\ntrain+echo2/cat/001.npy\n"
	if status, text := request(t, m, "PUT", "/plan", refused); status != 400 || !strings.Contains(text, "cannot be read: an echo view cannot serve this folder") {
		t.Errorf("status %d: %s", status, text)
	}
	if status, text := request(t, m, "PUT", "/plan", refused+"train/cat/002.npy\ntrain/readme.txt\n"); status != 200 {
		t.Fatalf("status %d: %s", status, text)
	}
	p := m.plans.all()[0]
	waitFor(t, "the end of the making", func() bool { s := p.progress(); return s.Failed == 2 && s.Made == 1 && s.Skipped == 1 })
	if got := p.progress().OneFailure; !strings.Contains(got, `"train+echo2/cat/00`) || !strings.Contains(got, "000.txt tells of the image") {
		t.Errorf("named is %q", got)
	}
}
