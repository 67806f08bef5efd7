package main

import (
	"strings"
	"testing"
)

// events are lines of `go test -json`, as they come.
func events(lines ...string) *strings.Reader {
	return strings.NewReader(strings.Join(lines, "\n") + "\n")
}

func TestReport(t *testing.T) {
	for _, test := range []struct {
		name                    string
		events                  []string
		passed, failed, skipped int
		says                    []string
	}{
		{
			name: "passed and skipped",
			events: []string{
				`{"Action":"start","Package":"m/a"}`,
				`{"Action":"run","Package":"m/a","Test":"TestOne"}`,
				`{"Action":"pass","Package":"m/a","Test":"TestOne","Elapsed":0.1}`,
				`{"Action":"output","Package":"m/a","Test":"TestTwo","Output":"=== RUN   TestTwo\n"}`,
				`{"Action":"output","Package":"m/a","Test":"TestTwo","Output":"    a_test.go:7: no data here\n"}`,
				`{"Action":"output","Package":"m/a","Test":"TestTwo","Output":"--- SKIP: TestTwo (0.00s)\n"}`,
				`{"Action":"skip","Package":"m/a","Test":"TestTwo","Elapsed":0}`,
				`{"Action":"pass","Package":"m/a","Elapsed":1.25}`,
			},
			passed: 1, skipped: 1,
			says: []string{"ok      1.2s  m/a: 1 passed, 1 skipped", "m/a TestTwo: a_test.go:7: no data here", "\n1 passed, 0 failed, 1 skipped\n"},
		},
		{
			name: "subtests are counted instead of what they are part of",
			events: []string{
				`{"Action":"pass","Package":"m/a","Test":"TestAll/x"}`,
				`{"Action":"output","Package":"m/a","Test":"TestAll/y","Output":"    a_test.go:9: it is 3, want 4\n"}`,
				`{"Action":"fail","Package":"m/a","Test":"TestAll/y"}`,
				`{"Action":"fail","Package":"m/a","Test":"TestAll"}`,
				`{"Action":"fail","Package":"m/a","Elapsed":2}`,
			},
			passed: 1, failed: 1,
			says: []string{"a_test.go:9: it is 3, want 4", "FAIL    2.0s  m/a: 1 passed, 1 failed", "failed:\n  m/a TestAll/y\n"},
		},
		{
			name: "a parent that fails by itself",
			events: []string{
				`{"Action":"pass","Package":"m/a","Test":"TestAll/x"}`,
				`{"Action":"fail","Package":"m/a","Test":"TestAll"}`,
				`{"Action":"fail","Package":"m/a","Elapsed":2}`,
			},
			passed: 1, failed: 1,
			says: []string{"failed:\n  m/a TestAll\n"},
		},
		{
			name: "does not build",
			events: []string{
				`{"ImportPath":"m/b","Action":"build-output","Output":"b/b.go:3: undefined: x\n"}`,
				`{"ImportPath":"m/b","Action":"build-fail"}`,
				`{"Action":"output","Package":"m/b","Output":"FAIL\tm/b [build failed]\n"}`,
				`{"Action":"fail","Package":"m/b","Elapsed":0,"FailedBuild":"m/b"}`,
			},
			failed: 1,
			says:   []string{"b/b.go:3: undefined: x", "FAIL"},
		},
		{
			name: "fails outside of a test",
			events: []string{
				`{"Action":"pass","Package":"m/a","Test":"TestOne"}`,
				`{"Action":"output","Package":"m/a","Output":"left over: a mount\n"}`,
				`{"Action":"fail","Package":"m/a","Elapsed":0.1}`,
			},
			passed: 1, failed: 1,
			says: []string{"left over: a mount"},
		},
		{
			name:   "never ends",
			events: []string{`{"Action":"start","Package":"m/a"}`, `{"Action":"pass","Package":"m/b","Test":"TestOne"}`, `{"Action":"pass","Package":"m/b"}`},
			passed: 1, failed: 1,
			says: []string{"m/a (did not finish)"},
		},
		{
			name:   "no tests",
			events: []string{`{"Action":"start","Package":"m/a"}`, `{"Action":"skip","Package":"m/a","Elapsed":0}`},
			says:   []string{"m/a (no tests)", "0 passed, 0 failed, 0 skipped"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			var out strings.Builder
			r := newReport(&out)
			if err := r.read(events(test.events...)); err != nil {
				t.Fatal(err)
			}
			err := r.close()
			if r.passed != test.passed || r.failed != test.failed || r.skipped != test.skipped {
				t.Errorf("%d passed, %d failed, %d skipped; want %d, %d, %d", r.passed, r.failed, r.skipped, test.passed, test.failed, test.skipped)
			}
			if good := test.failed == 0 && test.passed > 0; (err == nil) != good {
				t.Errorf("error %v", err)
			}
			for _, want := range test.says {
				if !strings.Contains(out.String(), want) {
					t.Errorf("it does not say %q:\n%s", want, out.String())
				}
			}
		})
	}
}

func TestOutOfTime(t *testing.T) {
	for text, want := range map[string]bool{
		"--- FAIL: FuzzX (10.06s)\n    context deadline exceeded\n":                                             true,
		"--- FAIL: FuzzX (3s)\n    fuzz_test.go:9: wrong\n    Failing input written to testdata/fuzz/FuzzX/1\n": false,
		"context deadline exceeded\nFailing input written to testdata/fuzz/FuzzX/1\n":                           false,
		"context deadline exceeded\npanic: index out of range\n":                                                false,
		"fuzz: elapsed: 10s, execs: 124054\nPASS\n":                                                             false,
	} {
		if got := outOfTime([]byte(text)); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}
