package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// event is one line of `go test -json` (go doc test2json).
type event struct {
	Action     string
	Package    string
	ImportPath string // of build output
	Test       string
	Elapsed    float64
	Output     string
}

// report turns events into lines for people and counts them.
type report struct {
	out     io.Writer
	label   string // printed after the package: the fuzz target
	open    map[string]*packageRun
	build   map[string]*strings.Builder // compiler output by import path
	skips   []string
	broken  []string
	passed  int
	failed  int
	skipped int
}

// packageRun is what is known of a package until it ends.
type packageRun struct {
	output  map[string]*strings.Builder // by test, "" for the package
	results map[string]string           // pass, fail or skip by test
	order   []string
}

func newReport(out io.Writer) *report {
	return &report{out: out, open: map[string]*packageRun{}, build: map[string]*strings.Builder{}}
}

// read consumes events until the stream ends.
func (r *report) read(events io.Reader) error {
	lines := bufio.NewReader(events)
	for {
		line, err := lines.ReadBytes('\n')
		if len(bytes.TrimSpace(line)) > 0 {
			var e event
			if json.Unmarshal(line, &e) == nil {
				r.take(e)
			} else {
				fmt.Fprintf(r.out, "%s", line) // what go says outside its protocol
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading the events of go test: %w", err)
		}
	}
}

func (r *report) take(e event) {
	if e.Action == "build-output" {
		appendTo(r.build, e.ImportPath, e.Output)
		return
	}
	if e.Package == "" {
		return
	}
	p := r.open[e.Package]
	if p == nil {
		p = &packageRun{output: map[string]*strings.Builder{}, results: map[string]string{}}
		r.open[e.Package] = p
	}
	switch e.Action {
	case "output":
		appendTo(p.output, e.Test, e.Output)
	case "pass", "fail", "skip":
		if e.Test == "" {
			r.finish(e, p)
			delete(r.open, e.Package)
			return
		}
		p.results[e.Test] = e.Action
		p.order = append(p.order, e.Test)
	}
}

func appendTo(texts map[string]*strings.Builder, key, text string) {
	if texts[key] == nil {
		texts[key] = &strings.Builder{}
	}
	texts[key].WriteString(text)
}

// finish counts the tests of a package that has ended and prints its line.
func (r *report) finish(e event, p *packageRun) {
	name := strings.TrimSpace(e.Package + " " + r.label)
	if e.Action == "skip" && len(p.results) == 0 {
		fmt.Fprintf(r.out, "      -     %s (no tests)\n", name)
		return
	}
	var passed, failed, skipped int
	for _, test := range p.order {
		if p.parent(test) {
			continue
		}
		switch p.results[test] {
		case "pass":
			passed++
		case "skip":
			skipped++
			r.skips = append(r.skips, fmt.Sprintf("%s %s: %s", e.Package, test, reason(text(p.output, test))))
		case "fail":
			failed++
			r.broken = append(r.broken, e.Package+" "+test)
			r.explain(e.Package+" "+test, p.withParents(test))
		}
	}
	if e.Action == "fail" && failed == 0 { // did not build, panicked, ran out of time, lost a race outside a test
		failed++
		r.broken = append(r.broken, name)
		r.explain(name, r.allBuildOutput()+text(p.output, ""))
	}
	r.passed, r.failed, r.skipped = r.passed+passed, r.failed+failed, r.skipped+skipped
	word := "ok"
	if e.Action == "fail" {
		word = "FAIL"
	}
	fmt.Fprintf(r.out, "%-4s %6.1fs  %s: %d passed", word, e.Elapsed, name, passed)
	if failed > 0 {
		fmt.Fprintf(r.out, ", %d failed", failed)
	}
	if skipped > 0 {
		fmt.Fprintf(r.out, ", %d skipped", skipped)
	}
	fmt.Fprintln(r.out)
}

// parent says whether a test only stands for its subtests: they are counted
// instead. A parent that failed by itself counts.
func (p *packageRun) parent(test string) bool {
	children, failed := 0, 0
	for other, result := range p.results {
		if strings.HasPrefix(other, test+"/") {
			children++
			if result == "fail" {
				failed++
			}
		}
	}
	return children > 0 && (p.results[test] != "fail" || failed > 0)
}

// withParents returns the output of a test and of those that it is part of.
func (p *packageRun) withParents(test string) string {
	var all string
	for i := range test {
		if test[i] == '/' {
			all += text(p.output, test[:i])
		}
	}
	return all + text(p.output, test)
}

func text(texts map[string]*strings.Builder, key string) string {
	if texts[key] == nil {
		return ""
	}
	return texts[key].String()
}

func (r *report) allBuildOutput() string {
	var all string
	for _, output := range r.build {
		all += output.String()
	}
	clear(r.build)
	return all
}

// explain prints the output of something that failed, without the lines that
// only say that a test began.
func (r *report) explain(name, output string) {
	fmt.Fprintf(r.out, "---- %s\n", name)
	for line := range strings.Lines(output) {
		if !strings.HasPrefix(line, "=== ") {
			fmt.Fprint(r.out, "  ", line)
		}
	}
	if !strings.HasSuffix(output, "\n") {
		fmt.Fprintln(r.out)
	}
}

// reason finds what a skipped test said.
func reason(output string) string {
	var said []string
	for line := range strings.Lines(output) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "=== ") && !strings.HasPrefix(line, "--- ") {
			said = append(said, line)
		}
	}
	if len(said) == 0 {
		return "without a reason"
	}
	return strings.Join(said, " ")
}

// close prints what was skipped, what failed and the counts.
func (r *report) close() error {
	for name := range r.open {
		r.failed++
		r.broken = append(r.broken, name+" (did not finish)")
	}
	if len(r.skips) > 0 {
		fmt.Fprintln(r.out, "\nskipped:")
		for _, skip := range r.skips {
			fmt.Fprintln(r.out, " ", skip)
		}
	}
	if len(r.broken) > 0 {
		fmt.Fprintln(r.out, "\nfailed:")
		for _, name := range r.broken {
			fmt.Fprintln(r.out, " ", name)
		}
	}
	fmt.Fprintf(r.out, "\n%d passed, %d failed, %d skipped\n", r.passed, r.failed, r.skipped)
	switch {
	case r.failed > 0:
		return errors.New("there are failures")
	case r.passed == 0:
		return errors.New("no test ran")
	}
	return nil
}
