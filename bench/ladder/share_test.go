package ladder

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// groups returns the files below a directory with their contents.
func groups(t *testing.T, root string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(root, path)
		files[filepath.ToSlash(name)] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// A slave is moved into a group of its own, whose limit is set before, in both versions of control groups.
func TestShares_Limit(t *testing.T) {
	for name, c := range map[string]struct {
		share     float64
		has, want map[string]string
	}{
		"Version1": {
			0.25,
			map[string]string{"cpu/cpu.cfs_quota_us": "-1"},
			map[string]string{"cpu/G/7/cpu.cfs_period_us": "10000", "cpu/G/7/cpu.cfs_quota_us": "2500", "cpu/G/7/cgroup.procs": "7"},
		},
		"Version2": {
			0.25,
			map[string]string{"cgroup.controllers": "cpuset cpu io\n"},
			map[string]string{"cgroup.subtree_control": "+cpu", "G/cgroup.subtree_control": "+cpu", "G/7/cpu.max": "2500 10000", "G/7/cgroup.procs": "7"},
		},
		"Both_Version1HasTheController": {
			0.25,
			map[string]string{"cgroup.controllers": "cpuset\n", "cpu/cpu.cfs_quota_us": "-1"},
			map[string]string{"cpu/G/7/cpu.cfs_period_us": "10000", "cpu/G/7/cpu.cfs_quota_us": "2500", "cpu/G/7/cgroup.procs": "7"},
		},
		"SmallShare_LongPeriod": {
			0.05,
			map[string]string{"cgroup.controllers": "cpu\n"},
			map[string]string{"cgroup.subtree_control": "+cpu", "G/cgroup.subtree_control": "+cpu", "G/7/cpu.max": "1000 20000", "G/7/cgroup.procs": "7"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			for file, text := range c.has {
				path := filepath.Join(root, file)
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			s, err := newShares(root, c.share)
			if err != nil {
				t.Fatal(err)
			}
			if err = s.limit(7); err != nil {
				t.Fatal(err)
			}
			want := maps.Clone(c.has)
			for file, text := range c.want {
				want[strings.Replace(file, "G", filepath.Base(s.dir), 1)] = text
			}
			if got := groups(t, root); !maps.Equal(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
}

// Without control groups the error says what is needed.
func TestShares_NoGroups_ErrorSaysWhatIsNeeded(t *testing.T) {
	if _, err := newShares(t.TempDir(), 0.1); err == nil || !strings.Contains(err.Error(), "this needs Linux, root, and control groups") {
		t.Errorf("got %v", err)
	}
}
