package containers

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rideshare/internal/testkit/testenv"
)

// grafana returns the service of Grafana, if its image could be pulled.
func (s *stack) grafana(t *testing.T) []string {
	t.Helper()
	if len(s.ids(t, "container", "label=com.docker.compose.service=grafana")) == 0 {
		return nil
	}
	return []string{"grafana"}
}

// testObserve looks at what Prometheus knows: every part is scraped, the rules of the checkout are loaded and evaluated, and
// what they record has values, also of the gateway, whose own metrics are at a port of their own.
func (s *stack) testObserve(t *testing.T) {
	t.Helper()
	s.awaitTargets(t)
	want := s.rules(t)
	testenv.Eventually(t, wholeLimit, func() error {
		var got struct {
			Groups []struct {
				Rules []struct{ Name, Health, LastError string }
			}
		}
		if err := s.ask(t, "/api/v1/rules", &got); err != nil {
			return err
		}
		var names []string
		for _, group := range got.Groups {
			for _, rule := range group.Rules {
				if rule.Health != "ok" {
					return fmt.Errorf("rule %s is %s: %s", rule.Name, rule.Health, rule.LastError)
				}
				names = append(names, rule.Name)
			}
		}
		slices.Sort(names)
		if diff := cmp.Diff(want, names); diff != "" {
			return fmt.Errorf("rules (-want +got):\n%s", diff)
		}
		return nil
	})
	for _, part := range []string{"gateway", "users", "rides", "orchestrator"} {
		testenv.Eventually(t, wholeLimit, func() error { return s.recorded(t, part) })
	}
}

// awaitTargets waits until Prometheus has scraped every part.
func (s *stack) awaitTargets(t *testing.T) {
	t.Helper()
	testenv.Eventually(t, wholeLimit, func() error {
		want := map[string]int{"gateway": 1, "users": 1, "rides": 1, "orchestrator": 1, "launcher": 1, "persdb": 1, "worker": len(s.workers(t))}
		var got struct {
			ActiveTargets []struct {
				Labels                       map[string]string
				Health, LastError, ScrapeURL string
			}
		}
		if err := s.ask(t, "/api/v1/targets?state=active", &got); err != nil {
			return err
		}
		up := map[string]int{}
		for _, target := range got.ActiveTargets {
			if target.Health != "up" {
				return fmt.Errorf("%s is %s: %s", target.ScrapeURL, target.Health, target.LastError)
			}
			up[target.Labels["job"]]++
		}
		if diff := cmp.Diff(want, up); diff != "" {
			return fmt.Errorf("targets (-want +got):\n%s", diff)
		}
		return nil
	})
}

// recorded makes requests, and returns an error unless Prometheus has recorded a rate of requests for the part.
func (s *stack) recorded(t *testing.T, part string) error {
	t.Helper()
	for _, path := range []string{"/api/v1/rides/count", "/api/v1/users"} {
		if _, _, err := s.try(t.Context(), http.MethodGet, s.gateway+path, ""); err != nil {
			return err
		}
	}
	var got struct {
		Result []struct{ Value []any }
	}
	query := fmt.Sprintf(`part:rideshare_http_requests:rate1m{part=%q} > 0`, part)
	if err := s.ask(t, "/api/v1/query?query="+url.QueryEscape(query), &got); err != nil {
		return err
	}
	if len(got.Result) != 1 {
		return fmt.Errorf("%s: got %v, want a value", query, got.Result)
	}
	return nil
}

// ask reads an answer of Prometheus' API into data.
func (s *stack) ask(t *testing.T, path string, data any) error {
	t.Helper()
	status, text, err := s.try(t.Context(), http.MethodGet, s.prometheus+path, "")
	if err != nil || status != http.StatusOK {
		return fmt.Errorf("prometheus: got %d %s (%w), want 200", status, text, err)
	}
	return json.Unmarshal([]byte(text), &struct{ Data any }{data})
}

var ruleName = regexp.MustCompile(`(?m)^ *- (?:alert|record): (.*)$`)

// rules returns the names of all rules of the checkout, sorted.
func (s *stack) rules(t *testing.T) []string {
	t.Helper()
	var names []string
	for _, file := range []string{"alerts.yml", "recording.yml"} {
		text, err := os.ReadFile(filepath.Join(s.root, "deploy", "prometheus", file))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range ruleName.FindAllStringSubmatch(string(text), -1) {
			names = append(names, m[1])
		}
	}
	slices.Sort(names)
	return names
}
