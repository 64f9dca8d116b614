package deploy_test

import (
	"bufio"
	"context"
	"io"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// logs follows the workers, which are no services of compose, and ends as a whole.
func TestStack_Logs_WorkersToo(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.write(filepath.Join(s.root, ".stack", "ours", "images"), "RIDESHARE_IMAGE=one\n")
	s.write(filepath.Join(s.engine, "names"), "ours-w1\nours-w2\n")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute) // it would wait for ever
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(s.root, "deploy", "stack.sh"), "logs")
	cmd.Env, cmd.SysProcAttr = s.env, &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	wants := map[string]bool{}
	for _, line := range []string{"said by logs -f --tail=100", "ours-w1 | said by logs -f --tail=100 ours-w1", "ours-w2 | said by logs -f --tail=100 ours-w2"} {
		wants[line] = true
	}
	follow := func() {
		for len(wants) > 0 && lines.Scan() {
			if !wants[lines.Text()] {
				t.Errorf("got the line %q again, or it is not wanted", lines.Text())
			}
			delete(wants, lines.Text())
		}
		if len(wants) > 0 {
			t.Errorf("the logs lack %v", wants)
		}
	}
	follow()
	wants["ours-w3 | said by logs -f --tail=100 ours-w3"] = true
	s.write(filepath.Join(s.engine, "names"), "ours-w1\nours-w2\nours-w3\n") // a third worker has started since
	follow()
	_ = cmd.Cancel()                                          // it may have ended
	if _, err := io.Copy(io.Discard, out); ctx.Err() != nil { // until no process has the pipe
		t.Errorf("a process goes on: %v", err)
	}
	_ = cmd.Wait() // by a signal
}
