package process_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/uuid"
)

// family is a process that has children, and a name by which all of them are found.
type family struct {
	token  string
	parent *exec.Cmd
	lines  *bufio.Scanner // what the parent says
}

func newFamily(t *testing.T, role, child string) *family {
	t.Helper()
	f := &family{token: envToken + "=" + uuid.NewString()}
	f.parent = exec.CommandContext(t.Context(), os.Args[0])
	f.parent.Env = append(os.Environ(), f.token, envRole+"="+role, envChild+"="+child, envDir+"="+t.TempDir())
	f.parent.Stderr = os.Stderr
	out, err := f.parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	f.lines = bufio.NewScanner(out)
	if err := f.parent.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		f.kill(t)
		for _, dir := range f.left(t) { // only after a failure
			if pid, err := strconv.Atoi(filepath.Base(dir)); err == nil {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	})
	return f
}

// kill ends the parent as hard as can be.
func (f *family) kill(t *testing.T) {
	t.Helper()
	if f.parent.ProcessState == nil {
		if err := f.parent.Process.Kill(); err != nil {
			t.Errorf("kill the parent: %v", err)
		}
		_ = f.parent.Wait() // it was killed
	}
}

// left returns the members that live, as the system shows them.
func (f *family) left(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, file := range files {
		env, err := os.ReadFile(file)
		if err == nil && strings.Contains("\x00"+string(env), "\x00"+f.token+"\x00") {
			found = append(found, filepath.Dir(file))
		}
	}
	return found
}

// wantNone checks that the whole family ends.
func (f *family) wantNone(t *testing.T) {
	t.Helper()
	eventually(t, func() error {
		if left := f.left(t); len(left) > 0 {
			return fmt.Errorf("left: %v", left)
		}
		return nil
	})
}

// line returns the next line that the parent says.
func (f *family) line(t *testing.T) []byte {
	t.Helper()
	if !f.lines.Scan() {
		t.Fatalf("the parent said nothing more: %v", f.lines.Err())
	}
	return f.lines.Bytes()
}

// A parent that is killed leaves no child running: neither a child that watches its lifeline, nor a child that does not, nor
// a paused one that cannot.
func TestOrphans_ParentKilled_ChildrenEnd(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, child string
		paused      bool
	}{
		{"Watching", roleWorker, false},
		{"Deaf", roleDeaf, false},
		{"Paused", roleWorker, true},
		{"PausedAndDeaf", roleDeaf, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			f := newFamily(t, roleParent, tc.child)
			var urls []string
			if err := json.Unmarshal(f.line(t), &urls); err != nil || len(urls) != 2 {
				t.Fatalf("got %v and error %v, want the URLs of two children", urls, err)
			}
			for _, url := range urls {
				child := get(t, url) // it serves
				if tc.paused {
					pause(t, child.PID)
				}
			}
			if left := f.left(t); len(left) != 3 {
				t.Fatalf("got %v, want a parent and two children", left)
			}
			f.kill(t)
			f.wantNone(t)
		})
	}
}

// A parent that is killed while it starts children leaves none, however far they have come.
func TestOrphans_ParentKilledDuringStart_ChildrenEnd(t *testing.T) {
	t.Parallel()
	for started := range 6 {
		f := newFamily(t, roleStarter, roleDeaf)
		for range started + 1 {
			f.line(t)
		}
		f.kill(t)
		f.wantNone(t)
	}
}
