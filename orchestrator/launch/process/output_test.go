package process_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"rideshare/internal/logkey"
	"rideshare/internal/testkit/testenv"
	"rideshare/orchestrator/launch"
	"rideshare/orchestrator/launch/process"
)

func eventually(t *testing.T, check func() error) {
	t.Helper()
	testenv.Eventually(t, limit, check)
}

// record returns the first log line with that message.
func record(t *testing.T, log *buffer, message string) map[string]any {
	t.Helper()
	for line := range strings.Lines(log.String()) {
		var r map[string]any
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("log line %q: %v", line, err)
		}
		if r[slog.MessageKey] == message {
			return r
		}
	}
	return nil
}

func dead(t *testing.T, w world) launch.Instance {
	t.Helper()
	var found launch.Instance
	eventually(t, func() error {
		list, err := w.List(t.Context())
		if err != nil || len(list) != 1 || list[0].Running {
			return errors.Join(err, fmt.Errorf("got %+v, want one dead worker", list))
		}
		found = list[0]
		return nil
	})
	return found
}

// An unrequested death of a worker is logged with its exit code and its last output.
func TestLauncher_WorkerDies_LastLinesAreLogged(t *testing.T) {
	t.Parallel()
	var log, stdout, stderr buffer
	c := process.Config{Stdout: &stdout, Stderr: &stderr, Log: slog.New(slog.NewJSONHandler(&log, nil))}
	c.SetDrainLimit(limit)
	w := newWorld(t, roleDoomed, c)
	i := start(t, w, "s1")
	if code := dead(t, w).ExitCode; code != 3 {
		t.Errorf("exit code: got %d, want 3", code)
	}
	eventually(t, func() error {
		if record(t, &log, "process died") == nil {
			return errors.New("death not logged")
		}
		return nil
	})
	r := record(t, &log, "process died")
	words, _ := r[logkey.Reason].(string)
	kept := strings.Split(words, "\n")
	if r[logkey.Worker] != string(i.ID) || r[logkey.Code] != 3.0 || r[slog.LevelKey] != slog.LevelWarn.String() {
		t.Errorf("got %v, want a warning with the worker and its exit code", r)
	}
	for _, want := range []string{"no luck", "cut", `{"line":49}`} {
		if !strings.Contains(words, want) {
			t.Errorf("last words: got %q, want %q among them", words, want)
		}
	}
	if len(kept) != 21 || strings.Contains(words, `{"line":30}`) {
		t.Errorf("last words: got %d lines, want the last 20 of stdout and one of stderr: %q", len(kept), words)
	}
	if got, want := stderr.String(), "no luck\n"; got != want {
		t.Errorf("stderr: got %q, want %q", got, want)
	}
	if got := stdout.String(); !strings.HasPrefix(got, `{"line":0}`+"\n") || !strings.HasSuffix(got, `{"line":49}`+"\ncut\n") {
		t.Errorf("stdout: got %q, want all lines in order, the last one with an end", got)
	}
}

// A death that was asked for is no warning.
func TestLauncher_WorkerIsKilled_NoWarning(t *testing.T) {
	t.Parallel()
	var log buffer
	w := newWorld(t, roleWorker, process.Config{Log: slog.New(slog.NewJSONHandler(&log, nil))})
	i := start(t, w, "s1")
	if err := w.Kill(t.Context(), i.ID); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		if record(t, &log, "process ended") == nil {
			return errors.New("end not logged")
		}
		return nil
	})
	if r := record(t, &log, "process ended"); r[logkey.Code] != 137.0 || r[slog.LevelKey] != slog.LevelInfo.String() {
		t.Errorf("got %v, want the exit code 137 and no warning", r)
	}
}

// writes is an output that keeps each Write by itself.
type writes struct{ all []string }

func (w *writes) Write(p []byte) (int, error) {
	w.all = append(w.all, string(p))
	return len(p), errors.New("full") // which must not hold up the child
}

// However output arrives, it is passed on line by line; overlong lines are cut.
func TestLines_Write_OneWriteForEachLine(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 70<<10)
	for name, tc := range map[string]struct{ in, want []string }{
		"Pieces":  {[]string{"a", "b\nc", "\n", "\nd\n"}, []string{"ab\n", "c\n", "\n", "d\n"}},
		"NoEnd":   {[]string{"a\nb"}, []string{"a\n", "b\n"}},
		"Nothing": {nil, nil},
		"Long":    {[]string{long, "y\n"}, []string{long + "\n", "y\n"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out writes
			process.WriteLines(&out, tc.in)
			if strings.Join(out.all, "|") != strings.Join(tc.want, "|") {
				t.Errorf("got %d writes %.80q, want %d", len(out.all), out.all, len(tc.want))
			}
		})
	}
}
