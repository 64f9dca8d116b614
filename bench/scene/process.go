package scene

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

// Start runs this program with other arguments, in a process that ends with the scene. It returns once the process has
// written a line with the text ready to its standard error, and also returns the rest of that line. Ctrl-C does not reach
// the process, since the check at the end of the scene needs it. One goroutine may call Start at a time.
func (r *Run) Start(ctx context.Context, ready string, args ...string) (*os.Process, string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, "", fmt.Errorf("find this program: %w", err)
	}
	child := exec.CommandContext(context.WithoutCancel(ctx), self, args...) //nolint:gosec // It is this program.
	child.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	said, err := child.StderrPipe()
	if err != nil {
		return nil, "", fmt.Errorf("make a pipe: %w", err)
	}
	if err = child.Start(); err != nil {
		return nil, "", fmt.Errorf("start this program: %w", err)
	}
	r.children = append(r.children, child)
	var last string
	for lines := bufio.NewScanner(said); lines.Scan(); {
		last = lines.Text()
		if _, rest, found := strings.Cut(last, ready); found {
			go func() { _, _ = io.Copy(io.Discard, said) }() // It ends with the process.
			return child.Process, rest, nil
		}
	}
	return nil, "", errors.New("a process ended before it was ready: " + last)
}

// StartAll starts several processes alike.
func (r *Run) StartAll(ctx context.Context, n int, ready string, args ...string) (processes []*os.Process, rests []string) {
	for range n {
		process, rest, err := r.Start(ctx, ready, args...)
		if err != nil {
			r.Fail(ctx, err)
			return nil, nil
		}
		processes, rests = append(processes, process), append(rests, rest)
	}
	return processes, rests
}

// end kills the processes that Start has started.
func (r *Run) end() {
	for _, child := range r.children {
		_ = child.Process.Kill() // It may have ended.
		_ = child.Wait()         // It was killed.
	}
}
