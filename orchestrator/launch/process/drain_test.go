package process_test

import (
	"fmt"
	"io"
	"sync"
	"testing"

	"rideshare/orchestrator/launch/process"
)

// gated is an output that blocks until it is opened.
type gated struct {
	buffer

	opened chan struct{}
}

func (g *gated) Write(p []byte) (int, error) {
	<-g.opened
	return g.buffer.Write(p)
}

// A worker's death is noticed although our output blocks, and nothing that it wrote is lost: all of it comes when the
// output takes it.
func TestLauncher_WorkerDies_OutputBlocks_NothingIsLost(t *testing.T) {
	t.Parallel()
	stdout := &gated{opened: make(chan struct{})}
	open := sync.OnceFunc(func() { close(stdout.opened) })
	w := newWorld(t, roleWordy, process.Config{Stdout: stdout})
	t.Cleanup(open)
	start(t, w, "s1")
	dead(t, w)
	open()
	eventually(t, func() error {
		if got, want := stdout.String(), wordyText(); got != want {
			return fmt.Errorf("got %d bytes, want all %d", len(got), len(want))
		}
		return nil
	})
}

// The output of a dead child ends although a grandchild holds it open, whether that one is silent or writes all the time.
// What the child wrote last is there.
func TestOutput_GrandchildHoldsIt_Ends(t *testing.T) {
	t.Parallel()
	for name, grandchild := range map[string]func(io.Writer){
		"Silent": func(io.Writer) {},
		"Chatty": func(w io.Writer) {
			line := []byte("still here\n")
			for _, err := w.Write(line); err == nil; _, err = w.Write(line) {
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out buffer
			held, died, ended, err := process.Output(&out)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = held.Close() }()
			if _, err = io.WriteString(held, "last\n"); err != nil {
				t.Fatal(err)
			}
			died()
			grandchild(held)
			eventually(t, func() error {
				select {
				case <-ended:
					return nil
				default:
					return fmt.Errorf("the output goes on after %q", out.String())
				}
			})
			if got := out.String(); len(got) < 5 || got[:5] != "last\n" {
				t.Errorf("got %.20q, want what the child wrote", got)
			}
		})
	}
}
