package ladder

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// groupRoot is the mount point of the kernel's control groups.
const groupRoot = "/sys/fs/cgroup"

const (
	// leastQuota is the least time that the kernel gives a group in each period.
	leastQuota = time.Millisecond
	// sharePeriod is how often a group gets its time. It is short, so that a process is never stopped for long.
	sharePeriod = 10 * time.Millisecond
)

// shares limits processes to a share of a core each, by a control group of the kernel for each process.
type shares struct {
	dir           string // of the groups
	version2      bool
	quota, period time.Duration
}

// newShares makes the directory of the groups, below root. It needs the rights of root.
func newShares(root string, share float64) (*shares, error) {
	period := max(sharePeriod, time.Duration(float64(leastQuota)/share))
	s := &shares{quota: time.Duration(share * float64(period)), period: period}
	name := fmt.Sprintf("rideshare-bench-%d", os.Getpid())
	controllers, err := os.ReadFile(filepath.Join(root, "cgroup.controllers")) //nolint:gosec // of the kernel.
	s.version2 = err == nil && strings.Contains(" "+strings.TrimSpace(string(controllers))+" ", " cpu ")
	if !s.version2 {
		if _, err = os.Stat(filepath.Join(root, "cpu", "cpu.cfs_quota_us")); err == nil || !errors.Is(err, os.ErrNotExist) {
			s.dir = filepath.Join(root, "cpu", name)
			return s, explain(os.MkdirAll(s.dir, 0o750))
		}
		return nil, explain(errors.New("no controller of processor time in " + root))
	}
	s.dir = filepath.Join(root, name)
	if err = writeGroup(root, "cgroup.subtree_control", "+cpu"); err == nil {
		err = os.MkdirAll(s.dir, 0o750)
	}
	if err == nil {
		err = writeGroup(s.dir, "cgroup.subtree_control", "+cpu")
	}
	return s, explain(err)
}

// explain adds to an error what the machine needs for control groups.
func explain(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("limit the slaves' processor time: %w; this needs Linux, root, and control groups that may be changed", err)
}

// limit moves a process into a group of its own.
func (s *shares) limit(pid int) error {
	dir := filepath.Join(s.dir, strconv.Itoa(pid))
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return explain(err)
	}
	quota, period := strconv.FormatInt(s.quota.Microseconds(), 10), strconv.FormatInt(s.period.Microseconds(), 10)
	settings := [][2]string{{"cpu.cfs_period_us", period}, {"cpu.cfs_quota_us", quota}}
	if s.version2 {
		settings = [][2]string{{"cpu.max", quota + " " + period}}
	}
	for _, set := range append(settings, [2]string{"cgroup.procs", strconv.Itoa(pid)}) {
		if err := writeGroup(dir, set[0], set[1]); err != nil {
			return explain(err)
		}
	}
	return nil
}

func writeGroup(dir, file, text string) error {
	return os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600)
}

// close removes the groups. Their processes must have ended.
func (s *shares) close() error {
	entries, err := os.ReadDir(s.dir)
	errs := []error{err}
	for _, e := range entries {
		if e.IsDir() {
			errs = append(errs, os.Remove(filepath.Join(s.dir, e.Name())))
		}
	}
	return errors.Join(append(errs, os.Remove(s.dir))...)
}
