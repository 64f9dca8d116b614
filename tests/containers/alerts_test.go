package containers

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"syscall"
	"testing"

	"rideshare/internal/testkit/testenv"
)

var ruleFor = regexp.MustCompile(`(?m)^( *for:) .*$`)

// outage are alerts of a system without workers, broker and persdb.
var outage = []string{"RideshareNoMaster", "RideshareNoSlave", "RideshareSlavesMissing", "RideshareBrokerAway", "RideshareBreakerOpen"}

// testAlerts makes alerts fire by causing what they report: the broker and persdb are stopped, so that workers that die are
// not replaced, and then the launcher is stopped too. Earlier phases have paused workers, which were replaced. The rules are
// those of the checkout, but they fire immediately, without the time of `for`.
func (s *stack) testAlerts(t *testing.T) {
	t.Helper()
	file := filepath.Join(s.dir, "prometheus", "alerts.yml")
	rules, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s.useRules(t, file, ruleFor.ReplaceAll(rules, []byte("$1 0s")))
	s.awaitAlerts(t, "RideshareHungWorkerReplaced")

	launcher, persdb, rabbitmq := s.of(t, "launcher").ID, s.of(t, "persdb").ID, s.of(t, "rabbitmq").ID
	s.docker(t, "stop", "-t", "0", persdb, rabbitmq)
	for _, w := range s.workers(t) {
		if w.State.Pid == 0 { // It has ended in the meantime.
			continue
		}
		if err = syscall.Kill(w.State.Pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			t.Errorf("kill %s (this test needs root): %v", w.Name, err)
		}
	}
	s.awaitAlerts(t, outage...)
	s.docker(t, "stop", "-t", "0", launcher)
	s.awaitAlerts(t, "RideshareWorkersUnknown")
	s.docker(t, "start", persdb, rabbitmq, launcher)
	testenv.Eventually(t, 2*wholeLimit, func() error { return s.whole(t) }) // all parts start, one after the other
	s.awaitNoAlerts(t, slices.Concat(outage, []string{"RideshareWorkersUnknown"})...)
	s.useRules(t, file, rules)
}

// useRules replaces the alert rules of the running Prometheus.
func (s *stack) useRules(t *testing.T, file string, rules []byte) {
	t.Helper()
	if err := os.WriteFile(file, rules, 0o600); err != nil { // it is there already, readable by Prometheus
		t.Fatal(err)
	}
	s.docker(t, "kill", "-s", "HUP", s.of(t, "prometheus").ID)
}

// awaitAlerts waits until all these alerts have fired at the same time.
func (s *stack) awaitAlerts(t *testing.T, names ...string) {
	t.Helper()
	testenv.Eventually(t, wholeLimit, func() error {
		firing, err := s.firing(t)
		for _, name := range names {
			if !firing[name] {
				return fmt.Errorf("%s does not fire; firing: %v (%w)", name, firing, err)
			}
		}
		return err
	})
}

// awaitNoAlerts waits until none of these alerts fires.
func (s *stack) awaitNoAlerts(t *testing.T, names ...string) {
	t.Helper()
	testenv.Eventually(t, wholeLimit, func() error {
		firing, err := s.firing(t)
		for _, name := range names {
			if firing[name] {
				return fmt.Errorf("%s fires still; firing: %v", name, firing)
			}
		}
		return err
	})
}

// firing returns the names of the alerts that fire.
func (s *stack) firing(t *testing.T) (map[string]bool, error) {
	t.Helper()
	var got struct {
		Result []struct{ Metric struct{ Alertname string } }
	}
	err := s.ask(t, "/api/v1/query?query="+url.QueryEscape(`ALERTS{alertstate="firing"}`), &got)
	firing := map[string]bool{}
	for _, one := range got.Result {
		firing[one.Metric.Alertname] = true
	}
	return firing, err
}
