package e2e

import (
	"os"
	"testing"
)

// showLog attaches the process's log to a failed test.
func (s *system) showLog(t *testing.T) {
	t.Helper()
	if t.Failed() {
		s.printLog(t)
	}
}

// maxLog is how much of a log's end is shown, in bytes.
const maxLog = 24 << 10

func (s *system) printLog(t *testing.T) {
	t.Helper()
	text, err := os.ReadFile(s.logFile())
	if err != nil {
		t.Logf("no log: %v", err)
		return
	}
	skipped := max(len(text)-maxLog, 0)
	t.Logf("log of %s, without its first %d bytes:\n%s", s.id, skipped, text[skipped:])
}
