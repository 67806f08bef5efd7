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

// Root returns the root folder of the repository.
func Root() string {
	_, file, _, ok := runtime.Caller(0)
	if !ok {
		panic("testfiles: no caller information in this build")
	}
	return filepath.Dir(filepath.Dir(filepath.Dir(file)))
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
