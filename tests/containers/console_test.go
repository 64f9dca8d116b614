package containers

import (
	"strings"
	"testing"
)

// testConsole runs the tests of tests/console in a browser on this stack: every view, and the actions in it.
func (s *stack) testConsole(t *testing.T) {
	t.Helper()
	s.console(t, "TestConsole_EveryView_ReadableEverywhere", "TestOverview_ShowsTraffic", "TestWorkers_Actions", "TestSQL_RunsShowsAndSaves",
		"TestEvents_AsTheyHappen", "TestSettings_AndSupportBundle", "TestRides_MadeAndJoined")
}

// testConsoleSignedIn does the same over TLS, signed in with the stack's token. Here the limits of scaling may be changed too: no
// later phase depends on them.
func (s *stack) testConsoleSignedIn(t *testing.T) {
	t.Helper()
	s.console(t, "TestOverview_ShowsTraffic", "TestWorkers_Actions", "TestScaling_TriedAndSaved", "TestRides_MadeAndJoined")
}

func (s *stack) console(t *testing.T, names ...string) {
	t.Helper()
	_, token, _ := strings.Cut(s.authorization, " ")
	out, err := s.tests(t, "console", "RIDESHARE_CONSOLE_READY", map[string]string{
		"gateway": s.gateway, "orchestrator": s.orchestrator, "token": token,
	}, "-run", "^("+strings.Join(names, "|")+")$")
	if passed := strings.Count(out, "\n--- PASS: "); err != nil || passed != len(names) {
		t.Fatalf("%d of %d tests of the console passed (%v)\n%s", passed, len(names), err, out)
	}
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, "--- PASS") {
			t.Log(strings.TrimSpace(line))
		}
	}
	s.awaitWhole(t)
}
