package fs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"prismfs/cache"
	"prismfs/dataset"
)

// controlledMount is a mount that nobody has mounted, with its control socket
// in a folder of the test.
func controlledMount(t *testing.T, log *bytes.Buffer) *mount {
	t.Helper()
	source := t.TempDir()
	writeSample(t, filepath.Join(source, "train/cat/001.l3"), rgb8, "")
	store, err := dataset.OpenLocal(source)
	if err != nil {
		t.Fatal(err)
	}
	// A socket's address is short, a test's folder may not be.
	run, err := os.MkdirTemp("/tmp", "prismfs-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(run) })
	t.Setenv("XDG_RUNTIME_DIR", run)
	opt := Options{Source: source, View: DefaultView, Logger: slog.New(slog.NewTextHandler(log, nil)), TableDir: dataset.NoTables, ReadAhead: -1}
	setDefaults(&opt)
	m, err := newMount(opt, store)
	if err != nil {
		t.Fatal(err)
	}
	if m.cache, err = cache.New[bufferKey](cache.Options{Budget: 1 << 20, Medium: cache.NewMemory(0)}); err != nil {
		t.Fatal(err)
	}
	if m.socket, err = m.openControlSocket(); err != nil {
		t.Fatal(err)
	}
	if got := filepath.Dir(m.socket.path); got != filepath.Join(run, "prismfs") {
		t.Fatalf("the socket is in %s", got)
	}
	t.Cleanup(func() {
		m.socket.close()
		if err := m.cache.Close(); err != nil {
			t.Error(err)
		}
		m.decoder.Close()
		store.Close()
		if _, err := os.Lstat(m.socket.path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the socket is left behind: %v", err)
		}
	})
	return m
}

// request sends a request to the control socket.
func request(t *testing.T, m *mount, method, target, body string) (int, string) {
	t.Helper()
	c := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", m.socket.path)
	}, DisableKeepAlives: true}}
	r, err := http.NewRequest(method, "http://x"+target, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var text bytes.Buffer
	if _, err := text.ReadFrom(answer.Body); err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, strings.Join(strings.Fields(text.String()), " ")
}

func TestControlSocket(t *testing.T) {
	var log bytes.Buffer
	m := controlledMount(t, &log)
	for _, c := range []struct {
		method, target, body string
		status               int
		want                 string // in the answer
	}{
		{"GET", "/fidelity", "", 200, `{ "views": {} }`},
		{"GET", "/fidelity?view=train%2Bauto", "", 200, `{ "view": "train+auto", "fidelity": 0 }`},
		{"PUT", "/fidelity", `{"view": "train+auto", "fidelity": 3}`, 200, `{ "view": "train+auto", "fidelity": 3, "largest": 1 }`},
		{"GET", "/fidelity?view=train%2Bpng%2Bauto", "", 200, `{ "view": "train+auto", "fidelity": 3 }`},
		{"PUT", "/fidelity", `{"view": "/train/cat+auto-x+raw/", "fidelity": 1}`, 200, `{ "view": "train/cat+auto-x", "fidelity": 1, "largest": 1 }`},
		{"PUT", "/fidelity", `{"view": "+auto", "fidelity": 0}`, 200, `{ "view": "+auto", "fidelity": 0, "largest": 1 }`},
		{"GET", "/fidelity", "", 200, `{ "views": { "+auto": 0, "train+auto": 3, "train/cat+auto-x": 1 } }`},
		{"PUT", "/fidelity", `{"view": "train+auto", "fidelity": -1}`, 400, "fidelity -1"},
		{"PUT", "/fidelity", `{"view": "train+auto", "fidelity": 1000001}`, 400, "1000001"},
		{"PUT", "/fidelity", `{"view": "train+auto", "fidelity": 1.5}`, 400, "reading the request"},
		{"PUT", "/fidelity", `{"view": "train+auto"}`, 400, "no fidelity"},
		{"PUT", "/fidelity", `{"view": "train+auto", "fidelity": 1, "more": 2}`, 400, "more"},
		{"PUT", "/fidelity", `[`, 400, "reading the request"},
		{"PUT", "/fidelity", `{"view": "` + strings.Repeat("x", maxControlBytes) + `", "fidelity": 1}`, 400, "reading the request"},
		{"PUT", "/fidelity", `{"view": "train+3", "fidelity": 1}`, 400, "no auto view"},
		{"PUT", "/fidelity", `{"view": "", "fidelity": 1}`, 400, "no auto view"},
		{"PUT", "/fidelity", `{"view": "train+auto/cat", "fidelity": 1}`, 400, "lies in the view train+auto"},
		{"PUT", "/fidelity", `{"view": "none+auto", "fidelity": 1}`, 404, "none+auto"},
		{"PUT", "/fidelity", `{"view": "train/cat/001.npy", "fidelity": 1}`, 404, "001.npy"},
		{"PUT", "/fidelity", `{"view": "../train+auto", "fidelity": 1}`, 400, "../train"},
		{"DELETE", "/fidelity", "", 405, "Not Allowed"},
		{"GET", "/nothing", "", 404, "not found"},
	} {
		status, text := request(t, m, c.method, c.target, c.body)
		if status != c.status || !strings.Contains(text, c.want) {
			t.Errorf("%s %s %.80s: %d %s, want %d with %s", c.method, c.target, c.body, status, text, c.status, c.want)
		}
	}
	if n := strings.Count(log.String(), "the fidelity of a view was set"); n != 3 {
		t.Errorf("%d changes are logged of 3:\n%s", n, &log)
	}
	if !strings.Contains(log.String(), "view=train+auto fidelity=3 before=0") {
		t.Errorf("the log does not say what was set:\n%s", &log)
	}
}

// TestSettingsBelongToOpensThatFollow: a setting holds for every lookup after
// its answer.
func TestSettingsHoldForLookups(t *testing.T) {
	m := controlledMount(t, new(bytes.Buffer))
	for _, k := range []int{3, 1, 0} {
		if status, text := request(t, m, "PUT", "/fidelity", fmt.Sprintf(`{"view": "train+auto", "fidelity": %d}`, k)); status != 200 {
			t.Fatal(text)
		}
		for _, view := range []string{"train+auto", "train+auto+png"} {
			got, err := walk(m.names, DefaultView, view, "cat", "001"+map[bool]string{false: ".npy", true: ".png"}[strings.HasSuffix(view, "png")])
			if err != nil || got.view.Fidelity != k || got.view.Auto.Word != "auto" {
				t.Errorf("%s at %d: %v, %v", view, k, got.view, err)
			}
		}
		if got, err := walk(m.names, DefaultView, "train+auto-other", "cat", "001.npy"); err != nil || got.view.Fidelity != 0 {
			t.Errorf("another view: %v, %v", got.view, err)
		}
	}
}

func TestSettingsAreBounded(t *testing.T) {
	var f fidelities
	var wg sync.WaitGroup
	for i := range maxAutoViews {
		wg.Go(func() {
			if _, err := f.put(AutoView{Word: fmt.Sprint("auto-", i)}, 1); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if _, err := f.put(AutoView{Word: "auto-more"}, 1); !errors.Is(err, errManyAutoViews) {
		t.Errorf("one more: %v", err)
	}
	if before, err := f.put(AutoView{Word: "auto-0"}, 2); err != nil || before != 1 {
		t.Errorf("one that is there: %d, %v", before, err)
	}
	if len(f.all()) != maxAutoViews || f.of(AutoView{Word: "auto-0"}) != 2 {
		t.Errorf("%d settings", len(f.all()))
	}
}

// TestPrivateFolder: a folder that others could have prepared is not used.
func TestPrivateFolder(t *testing.T) {
	dir := t.TempDir()
	open := filepath.Join(dir, "open")
	if err := os.Mkdir(open, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(open, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, ok := range map[string]bool{"new": true, "open": true, "link": false, "file": false, "none/below": false} {
		path := filepath.Join(dir, name)
		if err := privateFolder(path); (err == nil) != ok {
			t.Errorf("%s: %v", name, err)
		}
		if info, err := os.Lstat(path); ok && (err != nil || info.Mode().Perm() != 0o700) {
			t.Errorf("%s is open to others: %v", name, err)
		}
	}
	if os.Getuid() != 0 {
		return
	}
	if err := os.Chown(open, 12345, 12345); err != nil {
		t.Fatal(err)
	}
	if err := privateFolder(open); err == nil {
		t.Error("a folder of another user is used")
	}
}

// TestRemoveStale: what a crash left behind goes, what is in use or may be about
// to be stays.
func TestRemoveStale(t *testing.T) {
	dir, err := os.MkdirTemp("/tmp", "prismfs-test-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	bind := func(name string) *net.UnixListener {
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, name), Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		l.SetUnlinkOnClose(false)
		return l
	}
	live := bind("live.sock")
	defer live.Close()
	for _, name := range []string{"dead.sock", "young.sock", "dead.other", "told.sock", "mounted.sock", "half-told.sock"} {
		bind(name).Close()
	}
	tell := func(name, device, mountpoint string) {
		r := record{Status: Status{Mountpoint: mountpoint}, Device: device}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(jsonText(r)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tell("live.json", "0:0", "/nowhere")
	tell("told.json", "0:0", "/nowhere")
	tell("mounted.json", "0:7", "/mnt")
	if err := os.WriteFile(filepath.Join(dir, "half-told.json"), []byte(`{"mountpoint": "/no`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "file.sock"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	tell("lost.json", "0:0", "/nowhere")
	tell("lost-mounted.json", "0:7", "/mnt")
	tell("lost-young.json", "0:0", "/nowhere")
	tell("not-ours.text", "0:0", "/nowhere")
	if err := os.WriteFile(filepath.Join(dir, "lost-half.json"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-2 * staleAfter)
	for _, name := range []string{"live.sock", "live.json", "mounted.json", "half-told.json", "dead.sock", "dead.other", "file.sock",
		"lost.json", "lost-mounted.json", "lost-half.json", "not-ours.text"} {
		if err := os.Chtimes(filepath.Join(dir, name), old, old); err != nil {
			t.Fatal(err)
		}
	}
	removeStale(dir, []mountEntry{{mountpoint: "/mnt", fsType: "ext4", device: "8:1"}, {mountpoint: "/mnt", fsType: fsType, device: "0:7"}})
	for name, want := range map[string]bool{
		"live.sock": true, "live.json": true, "dead.sock": false, "young.sock": true, "dead.other": true, "file.sock": true,
		"told.sock": false, "told.json": false, "mounted.sock": true, "mounted.json": true, "half-told.sock": true, "half-told.json": true,
		"lost.json": false, "lost-half.json": false, "lost-mounted.json": true, "lost-young.json": true, "not-ours.text": true,
	} {
		if _, err := os.Lstat(filepath.Join(dir, name)); (err == nil) != want {
			t.Errorf("%s is there: %v", name, err == nil)
		}
	}
}

func TestInnermostMount(t *testing.T) {
	list := []mountEntry{
		{mountpoint: "/", fsType: "ext4"}, {mountpoint: "/mnt", fsType: fsType}, {mountpoint: "/mnt/a+auto", fsType: "tmpfs"},
		{mountpoint: "/twice", fsType: "ext4"}, {mountpoint: "/twice", fsType: fsType},
		{mountpoint: "/over", fsType: fsType}, {mountpoint: "/over", fsType: "ext4"},
	}
	for path, want := range map[string]string{
		"/mnt": "/mnt", "/mnt/train+auto": "/mnt", "/mnt2": "", "/mnt/a+auto/b": "", "/twice/x": "/twice", "/over/x": "", "/": "", "/mnt/a+aut": "/mnt",
	} {
		got, ok := innermostMount(list, path)
		if ok != (want != "") || ok && got != want {
			t.Errorf("%s lies in %q, %v; want %q", path, got, ok, want)
		}
	}
}
