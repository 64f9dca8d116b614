package ladder

import (
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of CPU time in /proc. Source: proc(5), USER_HZ is 100 on every
// architecture that Linux has today.
const tick = 10 * time.Millisecond

// parts are the processes of a path by their kind: server, orchestrator, persdb, master, slave, broker, load.
type parts map[string][]int

// usage is the CPU time of each part so far.
type usage map[string]time.Duration

// usage adds up the CPU time of each part. Processes that have ended, or all without /proc, count as zero.
func (p parts) usage() usage {
	u := usage{}
	for name, pids := range p {
		for _, pid := range pids {
			u[name] += cpuOf(pid)
		}
	}
	return u
}

func (u usage) since(before usage) usage {
	out := maps.Clone(u)
	for name, t := range before {
		out[name] -= t
	}
	return out
}

func (u usage) add(other usage) {
	for name, t := range other {
		u[name] += t
	}
}

// resident returns, for each part, the memory of its largest process, in MiB.
func (p parts) resident() map[string]float64 {
	out := map[string]float64{}
	for name, pids := range p {
		for _, pid := range pids {
			out[name] = max(out[name], residentOf(pid))
		}
	}
	return out
}

func proc(pid int, file string) string {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), file)) //nolint:gosec // a number of a process.
	if err != nil {
		return ""
	}
	return string(text)
}

// statOf returns the fields of a process's stat after its name, which is in brackets and may contain anything.
func statOf(pid int) []string {
	stat := proc(pid, "stat")
	return strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
}

// cpuOf returns a process's CPU time, in user and system mode.
func cpuOf(pid int) time.Duration {
	fields := statOf(pid)
	const user, system = 11, 12 // utime and stime, see proc(5)
	if len(fields) <= system {
		return 0
	}
	var sum time.Duration
	for _, field := range []string{fields[user], fields[system]} {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0
		}
		sum += time.Duration(n) * tick
	}
	return sum
}

// residentOf returns the resident memory of a process in MiB.
func residentOf(pid int) float64 {
	for line := range strings.Lines(proc(pid, "status")) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 64)
			if err != nil {
				return 0
			}
			return kib / 1024
		}
	}
	return 0
}

// children returns the child processes of pid, by their sub-command.
func children(pid int) map[int]string {
	out := map[int]string{}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return out
	}
	for _, e := range entries {
		child, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if fields := statOf(child); len(fields) < 2 || fields[1] != strconv.Itoa(pid) {
			continue
		}
		if command := commandOf(child); command != "" {
			out[child] = command
		}
	}
	return out
}

// commandOf returns the first argument of a process, which is its sub-command if it runs this program.
func commandOf(pid int) string {
	args := strings.Split(proc(pid, "cmdline"), "\x00")
	if len(args) < 2 {
		return ""
	}
	return args[1]
}
