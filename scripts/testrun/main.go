// Command testrun runs the tests of the project the way that `make test` and
// continuous integration want them: in legs (plain, with the race detector, on
// one processor, with poisoned variables of C, through a real mount, fuzzing),
// with the time of each package,
// the output of what failed, what was skipped and why, and a last line that
// counts. Its exit status is 0 only if something was tested and nothing failed.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// concurrent packages run under the race detector, and once more on one
// processor, where some races show that two processors hide.
var concurrent = []string{"cache", "dataset", "fs", "gpudecode", "order", "pack"}

// partlyConcurrent are packages of which only the tests named here use
// goroutines; all of their tests would take minutes under the race detector.
var partlyConcurrent = map[string]string{
	"l3": "Workers|PanicInABand|WrongSamplesChecksum",
}

// mounting packages keep both processors busy by themselves and run alone.
var mounting = []string{"integration"}

// packageTimeout ends a package that hangs. The longest package, integration,
// needs a third of it on two cores.
const packageTimeout = 20 * time.Minute

// legs in the order in which they run.
var legs = []struct {
	name string
	run  func(*runner) error
}{
	{"tests", (*runner).plain},
	{"race", (*runner).race},
	{"single", (*runner).single},
	{"poisoned", (*runner).poisoned},
	{"mount", (*runner).mount},
	{"fuzz", (*runner).fuzz},
}

func main() {
	fuzzTime := flag.Duration("fuzztime", 10*time.Second, "time for each fuzz target")
	only := flag.String("only", "", "run this leg alone: "+legNames())
	flag.Parse()
	if err := run(*only, *fuzzTime); err != nil {
		fmt.Fprintln(os.Stderr, "testrun:", err)
		os.Exit(1)
	}
}

func legNames() string {
	var names []string
	for _, leg := range legs {
		names = append(names, leg.name)
	}
	return strings.Join(names, ", ")
}

func run(only string, fuzzTime time.Duration) error {
	r := &runner{fuzzTime: fuzzTime, report: newReport(os.Stdout)}
	if err := r.list(); err != nil {
		return err
	}
	started, known := time.Now(), only == ""
	for _, leg := range legs {
		if only != "" && only != leg.name {
			continue
		}
		known = true
		if err := leg.run(r); err != nil {
			return fmt.Errorf("leg %s: %w", leg.name, err)
		}
	}
	if !known {
		return fmt.Errorf("no leg %q; there are %s", only, legNames())
	}
	fmt.Printf("\nin all %.0f s\n", time.Since(started).Seconds())
	return r.report.close()
}

// runner runs `go test` and feeds what it says to the report.
type runner struct {
	fuzzTime time.Duration
	report   *report
	module   string
	packages []string // import paths
}

// list finds the packages of the module.
func (r *runner) list() error {
	module, err := exec.Command("go", "list", "-m").Output()
	if err != nil {
		return fmt.Errorf("asking for the module: %w", stderrOf(err))
	}
	packages, err := exec.Command("go", "list", "./...").Output()
	if err != nil {
		return fmt.Errorf("listing packages: %w", stderrOf(err))
	}
	r.module = strings.TrimSpace(string(module))
	r.packages = strings.Fields(string(packages))
	return nil
}

// stderrOf adds what a command printed to the error that it ended with.
func stderrOf(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) && len(exit.Stderr) > 0 {
		return fmt.Errorf("%w: %s", err, bytes.TrimSpace(exit.Stderr))
	}
	return err
}

// among returns the packages in one of the folders, or those in none of them.
func (r *runner) among(folders []string, inside bool) []string {
	var found []string
	for _, path := range r.packages {
		top, _, _ := strings.Cut(strings.TrimPrefix(path, r.module+"/"), "/")
		if slices.Contains(folders, top) == inside {
			found = append(found, path)
		}
	}
	return found
}

func (r *runner) plain() error {
	return r.goTest("tests", nil, r.among(slices.Concat(concurrent, mounting), false))
}

func (r *runner) race() error {
	const title = "tests under the race detector"
	if err := r.goTest(title, []string{"-race"}, r.among(concurrent, true)); err != nil {
		return err
	}
	for folder, tests := range partlyConcurrent {
		flags := []string{"-race", "-short", "-run", tests}
		if err := r.goTest(title+": "+folder, flags, []string{r.module + "/" + folder}); err != nil {
			return err
		}
	}
	return nil
}

func (r *runner) single() error {
	return r.goTest("tests on one processor", []string{"-short", "-cpu=1"}, r.among(concurrent, true))
}

// poisoned runs the tests of C code that is compiled so that what it uses
// without having set it is a pattern, which no table has an entry for.
func (r *runner) poisoned() error {
	const variable = "CGO_CFLAGS"
	flags := os.Getenv(variable)
	if err := os.Setenv(variable, "-g -O2 -ftrivial-auto-var-init=pattern"); err != nil {
		return err
	}
	defer os.Setenv(variable, flags) // or what comes after would be compiled anew
	return r.goTest("tests of C code with poisoned variables", []string{"-run", "Fenced|SIMD|Backends"}, []string{r.module + "/l3/..."})
}

func (r *runner) mount() error {
	return r.goTest("tests through a real mount", nil, r.among(mounting, true))
}

// goTest runs the tests of packages. Failing tests are the report's business;
// the error is of not being able to run them.
func (r *runner) goTest(title string, flags, packages []string) error {
	if len(packages) == 0 {
		return nil
	}
	fmt.Printf("\n== %s\n", title)
	args := []string{"test", "-json", "-count=1", "-timeout", packageTimeout.String()}
	return r.follow(slices.Concat(args, flags, packages))
}

// fuzz runs every fuzz target on its own, as `go test` wants it.
// A fuzzTarget is a function of a package.
type fuzzTarget struct{ path, name string }

// fuzz gives each target its time on one processor, as many at once as there are.
func (r *runner) fuzz() error {
	targets, err := r.fuzzTargets()
	if err != nil {
		return err
	}
	fmt.Printf("\n== fuzzing, %v each of %d targets\n", r.fuzzTime, len(targets))
	var group errgroup.Group
	group.SetLimit(runtime.NumCPU())
	var reporting sync.Mutex
	for _, t := range targets {
		group.Go(func() error {
			args := r.fuzzArguments(t)
			events, err := runFuzzer(args)
			reporting.Lock()
			defer reporting.Unlock()
			return r.reportFuzzing(t, args, events, err)
		})
	}
	return group.Wait()
}

// fuzzTargets lists the fuzz targets of all packages.
func (r *runner) fuzzTargets() ([]fuzzTarget, error) {
	var targets []fuzzTarget
	for _, path := range r.packages {
		out, err := exec.Command("go", "test", "-list", "^Fuzz", path).Output()
		if err != nil {
			return nil, fmt.Errorf("listing the fuzz targets of %s: %w", path, stderrOf(err))
		}
		for _, name := range strings.Fields(string(out)) {
			if !strings.HasPrefix(name, "Fuzz") {
				break // the closing line: ok, package, time
			}
			targets = append(targets, fuzzTarget{path, name})
		}
	}
	return targets, nil
}

func (r *runner) fuzzArguments(t fuzzTarget) []string {
	return []string{"test", "-json", "-run=^$", "-fuzz=^" + t.name + "$", "-fuzztime=" + r.fuzzTime.String(),
		"-fuzzminimizetime=10s", "-parallel=1", t.path}
}

// fuzzTries is how often a fuzz target is run that ended by running out of its
// own time.
const fuzzTries = 3

// runFuzzer runs go with args and returns what it said, and how it ended.
func runFuzzer(args []string) (events []byte, err error) {
	for range fuzzTries {
		cmd := exec.Command("go", args...)
		cmd.Stderr = os.Stderr
		if events, err = cmd.Output(); err == nil || !outOfTime(events) {
			break
		}
	}
	return events, err
}

func (r *runner) reportFuzzing(t fuzzTarget, args []string, events []byte, err error) error {
	r.report.label = t.name
	defer func() { r.report.label = "" }()
	failedBefore := r.report.failed
	if err := r.report.read(bytes.NewReader(events)); err != nil {
		return err
	}
	return r.settle(args, failedBefore, err)
}

// outOfTime says whether a fuzz run failed for no other reason than that its
// time was over: the fuzzer reports an input that it had to leave half-way as a
// failure now and then. What it really finds, it writes to a file and says so.
func outOfTime(events []byte) bool {
	return bytes.Contains(events, []byte("context deadline exceeded")) &&
		!bytes.Contains(events, []byte("Failing input written")) && !bytes.Contains(events, []byte("panic"))
}

// follow runs go with args and reads its events.
func (r *runner) follow(args []string) error {
	cmd := exec.Command("go", args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	failedBefore := r.report.failed
	if err := r.report.read(out); err != nil {
		return errors.Join(err, cmd.Wait())
	}
	return r.settle(args, failedBefore, cmd.Wait())
}

// settle says whether the end of a run is more than the report tells already.
func (r *runner) settle(args []string, failedBefore int, err error) error {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &exit) && r.report.failed > failedBefore:
		return nil
	}
	return fmt.Errorf("go %s: %w", strings.Join(args, " "), err)
}
