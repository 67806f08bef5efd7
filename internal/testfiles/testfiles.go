// Package testfiles finds the large test data that stands beside the
// repository rather than in it.
package testfiles

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// EnvDir names the environment variable that says where the data is. Without
// it the folder "shared" beside the repository is used.
const EnvDir = "PRISMFS_TEST_DATA"

// Root returns the root folder of the repository. A build with -trimpath does
// not know where its source was; then it is the folder above with a go.mod, for
// go test runs a test in the folder of its package.
func Root() string {
	_, file, _, _ := runtime.Caller(0)
	if filepath.IsAbs(file) {
		return filepath.Dir(filepath.Dir(filepath.Dir(file)))
	}
	dir, err := os.Getwd()
	if err != nil {
		panic("testfiles: " + err.Error())
	}
	for at := dir; at != filepath.Dir(at); at = filepath.Dir(at) {
		if _, err := os.Stat(filepath.Join(at, "go.mod")); err == nil {
			return at
		}
	}
	panic("testfiles: no go.mod above " + dir)
}

// Shared returns the path of a file or folder of the test data and skips the
// test, saying so, where it is absent.
func Shared(tb testing.TB, path string) string {
	tb.Helper()
	dir := os.Getenv(EnvDir)
	if dir == "" {
		dir = filepath.Join(filepath.Dir(Root()), "shared")
	}
	full := filepath.Join(dir, filepath.FromSlash(path))
	if _, err := os.Stat(full); err != nil {
		tb.Skipf("test data %s is not here (set %s to its folder): %v", path, EnvDir, err)
	}
	return full
}
