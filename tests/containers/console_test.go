package containers

import (
	"strings"
	"testing"
)

// testConsole runs tests of tests/console in a browser on this stack: every view, and what can be done in it.
func (s *stack) testConsole(t *testing.T) {
	t.Helper()
	s.console(t, "TestConsole_EveryView_ReadableEverywhere", "TestOverview_ShowsTraffic", "TestWorkers_Actions", "TestSQL_RunsShowsAndSaves",
		"TestEvents_AsTheyHappen", "TestSettings_AndSupportBundle", "TestRides_MadeAndJoined")
}

// testConsoleSignedIn does so signed in with the stack's token, over TLS. Here the limits of scaling may be changed, too: nothing
// depends on them any more.
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
