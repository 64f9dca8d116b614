package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"
	xterm "golang.org/x/term"
)

// terminal is a command at a pseudo terminal.
type terminal struct {
	cmd  *exec.Cmd
	file *os.File
	done chan struct{} // closed when the output has ended

	mu  sync.Mutex // guards out and the seen part of it
	out bytes.Buffer
}

// runInTerminal starts the binary at a terminal that many columns wide.
func runInTerminal(t *testing.T, columns uint16, env []string, args ...string) *terminal {
	t.Helper()
	if err := noteSources(); err != nil {
		t.Fatal(err)
	}
	term := &terminal{cmd: exec.Command(suite.binary, args...), done: make(chan struct{})}
	term.cmd.Env = append(cleanEnv(), env...)
	file, err := pty.StartWithSize(term.cmd, &pty.Winsize{Rows: 24, Cols: columns})
	if err != nil {
		t.Fatal(err)
	}
	term.file = file
	go func() {
		defer close(term.done)
		buf := make([]byte, 4096)
		for {
			n, err := file.Read(buf)
			term.mu.Lock()
			term.out.Write(buf[:n])
			term.mu.Unlock()
			if err != nil { // the command has ended
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = term.cmd.Process.Kill() // it may have ended
		_ = file.Close()
		<-term.done
	})
	return term
}

// await waits until the output since the last await contains text, and returns that output up to the end of text.
func (term *terminal) await(t *testing.T, text string) string {
	t.Helper()
	var seen string
	eventually(t, startLimit, func() error {
		term.mu.Lock()
		defer term.mu.Unlock()
		before, _, found := strings.Cut(term.out.String(), text)
		if !found {
			return fmt.Errorf("got %q, want %q", term.out.String(), text)
		}
		seen = string(term.out.Next(len(before) + len(text)))
		return nil
	})
	return seen
}

// awaitHidden waits until the terminal no longer shows what is typed, that is, no longer has its initial settings.
func (term *terminal) awaitHidden(t *testing.T) {
	t.Helper()
	file, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = file.Close(), tty.Close() }()
	fresh := settingsOf(t, file)
	eventually(t, startLimit, func() error {
		if reflect.DeepEqual(settingsOf(t, term.file), fresh) {
			return errors.New("the terminal shows what is typed")
		}
		return nil
	})
}

// settingsOf returns the settings of a pseudo terminal. File.Fd would make the file block.
func settingsOf(t *testing.T, file *os.File) (settings *xterm.State) {
	t.Helper()
	conn, err := file.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var failed error
	if err = conn.Control(func(fd uintptr) { settings, failed = xterm.GetState(int(fd)) }); err != nil || failed != nil {
		t.Fatal(err, failed)
	}
	return settings
}

// enter types a text and waits until the editor shows its end: from then on the editor handles Ctrl-C.
func (term *terminal) enter(t *testing.T, text string) {
	t.Helper()
	term.press(t, text)
	term.await(t, text[max(0, len(text)-8):])
}

func (term *terminal) press(t *testing.T, keys string) {
	t.Helper()
	if _, err := term.file.WriteString(keys); err != nil {
		t.Fatal(err)
	}
}

// ends waits for the exit code 0.
func (term *terminal) ends(t *testing.T) {
	t.Helper()
	limit := time.AfterFunc(stopLimit, func() { _ = term.cmd.Process.Kill() })
	defer limit.Stop()
	if err := term.cmd.Wait(); err != nil {
		t.Errorf("the command ended with %v, want exit code 0", err)
	}
}

// A person at a terminal sees where the system is and what to try, the log as text, and colors unless NO_COLOR is set.
// The log begins with warnings there; -v shows all of it. Without a terminal the log is JSON.
func TestTerminal_Up(t *testing.T) {
	for name, tc := range map[string]struct {
		env, args []string
		want      []string
		colors    bool
	}{
		"plain":    {want: []string{"WRN", "no AUTH_FILE", "rideshare is ready", "Ctrl-C stops"}, colors: true},
		"verbose":  {args: []string{"-v"}, want: []string{"INF", "epoch claimed", "rideshare is ready"}, colors: true},
		"no color": {env: []string{"NO_COLOR=1"}, want: []string{" WRN no AUTH_FILE", "rideshare is ready"}},
	} {
		t.Run(name, func(t *testing.T) {
			sys := newSystem(t.TempDir(), setup{})
			term := runInTerminal(t, 80, append([]string{"TERM=xterm", "NO_COLOR=", markerEnv + "=" + sys.id}, tc.env...), append(sys.upArgs(), tc.args...)...)
			var seen strings.Builder
			for _, want := range tc.want {
				seen.WriteString(term.await(t, want))
			}
			term.press(t, ctrlC)
			seen.WriteString(term.await(t, "rideshare has stopped; its data are in "+sys.dataDir()))
			term.ends(t)
			if got := strings.Contains(seen.String(), "\x1b["); got != tc.colors {
				t.Errorf("colors: got %t, want %t in %q", got, tc.colors, seen.String())
			}
			if strings.Contains(seen.String(), `{"time"`) {
				t.Errorf("got JSON: %q", seen.String())
			}
		})
	}
}

// The status of a running system fits the terminal, is rewritten in place, and ends with Ctrl-C.
func TestTerminal_StatusWatch(t *testing.T) {
	sys := shared(t)
	term := runInTerminal(t, 80, []string{"TERM=xterm", "NO_COLOR=1"}, "status", "--watch", sys.Orchestrator)
	eventually(t, againLimit, func() error {
		screen := term.await(t, "\x1b[J")
		for _, want := range []string{"health    ready", "master  serving", "slave   serving"} {
			if !strings.Contains(screen, want) {
				return fmt.Errorf("got %q, want %q in it", screen, want)
			}
		}
		return nil
	})
	term.await(t, "\x1b[H") // the next one begins at the same place
	term.press(t, ctrlC)
	term.ends(t)
}

// A benchmark shows a progress bar on a terminal, with the share that is done, the time left and the current step.
func TestTerminal_BenchFailover_ShowsABar(t *testing.T) {
	term := runInTerminal(t, 80, []string{"TERM=xterm"}, "bench", "failover", "--kills", "2", "--slaves", "1", "--writes", "20", "--reads", "0")
	term.await(t, "\r\x1b[K[########################] 100%  0s left  ")
	term.await(t, "2 x kill")
	term.ends(t)
}
