package fs

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"

	"prismfs/dataset"
	"prismfs/gpudecode"
	"prismfs/gpudecode/cuda"
)

// TestDeviceDemanded: a mount that demands a device is refused on a machine that
// has no driver, in one line, with a remedy.
func TestDeviceDemanded(t *testing.T) {
	t.Setenv(cuda.LibraryVariable, filepath.Join(t.TempDir(), "libcuda.so.1"))
	store, err := dataset.OpenLocal(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	opt := Options{View: DefaultView, Backend: gpudecode.BackendCUDA, Logger: slog.New(slog.DiscardHandler), TableDir: dataset.NoTables}
	setDefaults(&opt)
	_, err = newMount(opt, store)
	var refused *DeviceError
	if !errors.As(err, &refused) || !errors.Is(err, gpudecode.ErrNoDevice) {
		t.Fatalf("error %v", err)
	}
	for _, want := range []string{"libcuda.so.1", "--backend auto"} {
		if !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("the message is %q", err)
		}
	}
}

func TestReaderOf(t *testing.T) {
	ctx := fuse.NewContext(context.Background(), &fuse.Caller{Pid: 4711})
	if got := readerOf(ctx); got != 4711 {
		t.Errorf("the reader is %d", got)
	}
	if got := readerOf(background); got != 0 {
		t.Errorf("nobody is %d", got)
	}
}

// TestDeviceStats: each count of the decoder is in the statistics.
func TestDeviceStats(t *testing.T) {
	var d gpudecode.DeviceStats
	v := reflect.ValueOf(&d).Elem()
	var want []string
	for i := range v.NumField() {
		value := strconv.Itoa(1000 + i)
		want = append(want, value)
		switch field := v.Field(i); {
		case field.Kind() == reflect.String:
			field.SetString(value)
		case field.CanInt():
			field.SetInt(int64(1000 + i))
		default:
			field.SetUint(uint64(1000 + i))
		}
	}
	text, err := json.Marshal(deviceStats(d))
	if err != nil {
		t.Fatal(err)
	}
	for i, value := range want {
		if strings.Count(string(text), value) != 1 {
			t.Errorf("%s is not in the statistics, or more than once: %s", v.Type().Field(i).Name, text)
		}
	}
}
