package cache

import (
	"math"
	"strings"
	"testing"
	"testing/fstest"
)

const meminfo = `MemTotal:       24607188 kB
MemFree:        24001000 kB
MemAvailable:   16777216 kB
Buffers:            2724 kB
`

// tree makes a file system of pairs of name and content.
func tree(pairs ...string) fstest.MapFS {
	files := fstest.MapFS{}
	for i := 0; i < len(pairs); i += 2 {
		files[pairs[i]] = &fstest.MapFile{Data: []byte(pairs[i+1])}
	}
	return files
}

func TestReadMemoryOfCgroups(t *testing.T) {
	const noLimitV1 = "9223372036854771712\n"
	for name, tc := range map[string]struct {
		files fstest.MapFS
		want  int64 // CgroupFree
	}{
		"no cgroups": {tree(), math.MaxInt64},
		"empty list": {tree("proc/self/cgroup", ""), math.MaxInt64},
		"odd lines":  {tree("proc/self/cgroup", "\n0\n0:\n::\nmemory\n0::/a\n", "sys/fs/cgroup/a/memory.max", "7", "sys/fs/cgroup/a/memory.current", "3"), 4},
		"v2": {tree(
			"proc/self/cgroup", "0::/user.slice/job\n",
			"sys/fs/cgroup/user.slice/job/memory.max", "1073741824\n",
			"sys/fs/cgroup/user.slice/job/memory.current", "73741824\n"), 1_000_000_000},
		"v2 without a limit": {tree(
			"proc/self/cgroup", "0::/user.slice\n",
			"sys/fs/cgroup/user.slice/memory.max", "max\n",
			"sys/fs/cgroup/user.slice/memory.high", "max\n",
			"sys/fs/cgroup/user.slice/memory.current", "5000\n"), math.MaxInt64},
		"v2 slowed down before its limit": {tree(
			"proc/self/cgroup", "0::/job\n",
			"sys/fs/cgroup/job/memory.max", "9000\n",
			"sys/fs/cgroup/job/memory.high", "8000\n",
			"sys/fs/cgroup/job/memory.current", "5000\n"), 3000},
		"v2 tighter parent": {tree(
			"proc/self/cgroup", "0::/slurm/job_1/step_0\n",
			"sys/fs/cgroup/slurm/job_1/step_0/memory.max", "max\n",
			"sys/fs/cgroup/slurm/job_1/step_0/memory.current", "1000\n",
			"sys/fs/cgroup/slurm/job_1/memory.max", "20000\n",
			"sys/fs/cgroup/slurm/job_1/memory.current", "15000\n",
			"sys/fs/cgroup/slurm/memory.max", "90000\n",
			"sys/fs/cgroup/slurm/memory.current", "15000\n"), 5000},
		"v2 tighter child": {tree(
			"proc/self/cgroup", "0::/a/b\n",
			"sys/fs/cgroup/a/b/memory.max", "100\n",
			"sys/fs/cgroup/a/b/memory.current", "10\n",
			"sys/fs/cgroup/a/memory.max", "1000\n",
			"sys/fs/cgroup/a/memory.current", "10\n"), 90},
		"v2 over its limit": {tree(
			"proc/self/cgroup", "0::/a\n",
			"sys/fs/cgroup/a/memory.max", "100\n",
			"sys/fs/cgroup/a/memory.current", "110\n"), 0},
		"v2 full of cold file pages": {tree(
			"proc/self/cgroup", "0::/a\n",
			"sys/fs/cgroup/a/memory.max", "1000\n",
			"sys/fs/cgroup/a/memory.current", "1000\n",
			"sys/fs/cgroup/a/memory.stat", "anon 100\nfile 900\nshmem 200\ninactive_anon 1\nactive_file 50\ninactive_file 650\n"), 650},
		"v2 cold pages beyond the usage": {tree(
			"proc/self/cgroup", "0::/a\n",
			"sys/fs/cgroup/a/memory.max", "1000\n",
			"sys/fs/cgroup/a/memory.current", "10\n",
			"sys/fs/cgroup/a/memory.stat", "inactive_file 650\n"), 1000},
		"v2 odd statistics": {tree(
			"proc/self/cgroup", "0::/a\n",
			"sys/fs/cgroup/a/memory.max", "1000\n",
			"sys/fs/cgroup/a/memory.current", "400\n",
			"sys/fs/cgroup/a/memory.stat", "inactive_file\ninactive_file -3\n"), 600},
		"v2 in a container that sees its own group as the top": {tree(
			"proc/self/cgroup", "0::/kubepods/burstable/pod1/abc\n",
			"sys/fs/cgroup/memory.max", "4096\n",
			"sys/fs/cgroup/memory.current", "96\n"), 4000},
		"v2 namespace, group beside the root": {tree(
			"proc/self/cgroup", "0::/../other\n",
			"sys/fs/cgroup/memory.max", "4096\n",
			"sys/fs/cgroup/memory.current", "96\n"), 4000},
		"v2 controller not enabled": {tree(
			"proc/self/cgroup", "0::/a\n",
			"sys/fs/cgroup/a/cgroup.procs", "1\n"), math.MaxInt64},
		"usage missing": {tree(
			"proc/self/cgroup", "0::/a\n",
			"sys/fs/cgroup/a/memory.max", "1000\n"), 1000},
		"usage not a number": {tree(
			"proc/self/cgroup", "0::/a\n",
			"sys/fs/cgroup/a/memory.max", "1000\n",
			"sys/fs/cgroup/a/memory.current", "99999999999999999999\n"), 1000},
		"limit not a number": {tree(
			"proc/self/cgroup", "0::/a\n",
			"sys/fs/cgroup/a/memory.max", "lots\n",
			"sys/fs/cgroup/a/memory.high", "-5\n",
			"sys/fs/cgroup/a/memory.current", "10\n"), math.MaxInt64},
		"v1": {tree(
			"proc/self/cgroup", "9:name=systemd:/\n4:memory:/job/1\n1:cpu:/\n",
			"sys/fs/cgroup/memory/job/1/memory.limit_in_bytes", "5000\n",
			"sys/fs/cgroup/memory/job/1/memory.usage_in_bytes", "1500\n",
			"sys/fs/cgroup/memory/job/1/memory.stat", "inactive_file 1\ntotal_inactive_file 500\n",
			"sys/fs/cgroup/memory/job/memory.limit_in_bytes", noLimitV1,
			"sys/fs/cgroup/memory/job/memory.usage_in_bytes", "900000\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes", noLimitV1,
			"sys/fs/cgroup/memory/memory.usage_in_bytes", "900000\n"), 4000},
		"v1 without a limit": {tree(
			"proc/self/cgroup", "4:memory:/\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes", noLimitV1,
			"sys/fs/cgroup/memory/memory.usage_in_bytes", "900000\n"), math.MaxInt64},
		"v1 joined controllers": {tree(
			"proc/self/cgroup", "4:hugetlb,memory,pids:/x\n3:cpu,memorial:/y\n",
			"sys/fs/cgroup/memory/x/memory.limit_in_bytes", "50\n",
			"sys/fs/cgroup/memory/x/memory.usage_in_bytes", "20\n",
			"sys/fs/cgroup/memory/y/memory.limit_in_bytes", "5\n",
			"sys/fs/cgroup/memory/y/memory.usage_in_bytes", "2\n"), 30},
		"v1 in a container": {tree(
			"proc/self/cgroup", "4:memory:/docker/abc\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes", "5000\n",
			"sys/fs/cgroup/memory/memory.usage_in_bytes", "1000\n"), 4000},
		"v1 path with a colon": {tree(
			"proc/self/cgroup", "4:memory:/a:b\n",
			"sys/fs/cgroup/memory/a:b/memory.limit_in_bytes", "50\n",
			"sys/fs/cgroup/memory/a:b/memory.usage_in_bytes", "20\n"), 30},
		"hybrid": {tree(
			"proc/self/cgroup", "4:memory:/job\n0::/job\n",
			"sys/fs/cgroup/memory/job/memory.limit_in_bytes", "50\n",
			"sys/fs/cgroup/memory/job/memory.usage_in_bytes", "20\n",
			"sys/fs/cgroup/unified/job/cgroup.procs", "1\n"), 30},
	} {
		t.Run(name, func(t *testing.T) {
			tc.files["proc/meminfo"] = &fstest.MapFile{Data: []byte(meminfo)}
			m, err := readMemory(tc.files)
			if err != nil {
				t.Fatal(err)
			}
			if m.CgroupFree != tc.want || m.Available != 16<<30 {
				t.Errorf("got %+v, want %d and 16 GiB", m, tc.want)
			}
		})
	}
}

func TestReadMemoryOfOddMachines(t *testing.T) {
	for name, info := range map[string]string{
		"missing":      "",
		"no such line": "MemTotal: 1 kB\nMemAvailable:\n",
		"not a number": "MemAvailable: many kB\n",
		"negative":     "MemAvailable: -1 kB\n",
		"overflow":     "MemAvailable: 9223372036854775807 kB\n",
	} {
		files := tree("proc/meminfo", info)
		if info == "" {
			files = tree()
		}
		if _, err := readMemory(files); err == nil || !strings.Contains(err.Error(), "free memory") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestReadMemoryOfThisMachine(t *testing.T) {
	m, err := ReadMemory()
	if err != nil {
		t.Fatal(err)
	}
	if m.Available <= 0 || m.CgroupFree < 0 || m.Free() > m.Available || m.DefaultBudget() < MinBudget {
		t.Errorf("%+v", m)
	}
}

func TestDefaultBudget(t *testing.T) {
	for _, tc := range []struct{ available, cgroup, want int64 }{
		{16 << 30, math.MaxInt64, 4 << 30},
		{16 << 30, 8 << 30, 2 << 30},
		{8 << 30, 16 << 30, 2 << 30},
		{100 << 20, math.MaxInt64, MinBudget},
		{16 << 30, 0, MinBudget},
		{0, 0, MinBudget},
	} {
		m := Memory{Available: tc.available, CgroupFree: tc.cgroup}
		if got := m.DefaultBudget(); got != tc.want {
			t.Errorf("%+v: %d, want %d", m, got, tc.want)
		}
	}
}
