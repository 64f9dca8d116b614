// Package promtest runs a Prometheus with the project's alert rules beside a test, which shows that alerts fire.
package promtest

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"rideshare/internal/testkit/testenv"
)

// limit bounds the start of Prometheus, and the time until an alert fires.
const limit = time.Minute

// config has shorter times than that of the stack, to see states of seconds.
const config = `global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}
rule_files: [alerts.yml, recording.yml]
scrape_configs:
  - job_name: parts
    static_configs: [{targets: [%s]}]
`

var ruleFor = regexp.MustCompile(`(?m)^( *for:) .*$`)

// Alerts is a Prometheus that remembers which alerts have fired.
type Alerts struct{ base string }

// Watch starts a Prometheus for this test. It scrapes the parts at these base URLs, and evaluates the rules in the folder
// deploy/prometheus. An alert fires as soon as it holds: without the time of its `for`, and with limits that are pairs of an
// old and a new text of the rules.
func Watch(tb testing.TB, rules string, parts []string, limits ...string) *Alerts {
	tb.Helper()
	program, err := exec.LookPath("prometheus")
	if err != nil {
		testenv.Cannot(tb, false, "prometheus is missing (`make setup` installs it): %v", err)
	}
	dir := tb.TempDir()
	write(tb, filepath.Join(dir, "alerts.yml"), lower(tb, read(tb, filepath.Join(rules, "alerts.yml")), limits))
	write(tb, filepath.Join(dir, "recording.yml"), read(tb, filepath.Join(rules, "recording.yml")))
	targets := make([]string, len(parts))
	for i, part := range parts {
		targets[i] = strings.TrimPrefix(part, "http://")
	}
	write(tb, filepath.Join(dir, "prometheus.yml"), fmt.Sprintf(config, strings.Join(targets, ", ")))
	address := testenv.FreeAddress(tb)
	cmd := exec.CommandContext(tb.Context(), program, //nolint:gosec // the arguments are our own.
		"--config.file=prometheus.yml", "--storage.tsdb.path=data", "--web.listen-address="+address, "--log.level=warn")
	cmd.Dir = dir
	cmd.Stderr = tb.Output()
	if err = cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = cmd.Wait() }) // the end of the test's context has killed it.
	a := &Alerts{base: "http://" + address}
	testenv.Eventually(tb, limit, func() error { return a.scraped(len(parts)) })
	return a
}

// lower returns the rules without the time of `for`, and with other limits. Rules without one of the old limits fail the test.
func lower(tb testing.TB, rules string, limits []string) string {
	tb.Helper()
	rules = ruleFor.ReplaceAllString(rules, "$1 0s")
	for i := 0; i < len(limits); i += 2 {
		if !strings.Contains(rules, limits[i]) {
			tb.Fatalf("no rule has the text %q", limits[i])
		}
		rules = strings.ReplaceAll(rules, limits[i], limits[i+1])
	}
	return rules
}

func read(tb testing.TB, path string) string {
	tb.Helper()
	text, err := os.ReadFile(path) //nolint:gosec // a file of the checkout.
	if err != nil {
		tb.Fatal(err)
	}
	return string(text)
}

func write(tb testing.TB, path, text string) {
	tb.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}
}

// scraped returns an error until each of n parts was scraped twice, so that counters have a value to grow from.
func (a *Alerts) scraped(n int) error {
	got, err := a.query(`count_over_time(up[1h]) > 1 and up == 1`)
	if err == nil && len(got) != n {
		err = fmt.Errorf("%d parts were scraped, want %d", len(got), n)
	}
	return err
}

// Await waits until each of these alerts has fired at least once since Watch.
func (a *Alerts) Await(tb testing.TB, names ...string) {
	tb.Helper()
	testenv.Eventually(tb, limit, func() error {
		fired, err := a.query(`count_over_time(ALERTS{alertstate="firing"}[1h])`)
		for _, name := range names {
			if err == nil && !fired[name] {
				err = fmt.Errorf("%s has not fired; fired: %v", name, fired)
			}
		}
		return err
	})
}

// query returns the names of the alerts, or else the instances, that an expression has values for.
func (a *Alerts) query(expr string) (map[string]bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.base+"/api/v1/query?query="+url.QueryEscape(expr), http.NoBody)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	var body struct {
		Error string
		Data  struct {
			Result []struct {
				Metric struct{ Alertname, Instance string }
			}
		}
	}
	if err = json.NewDecoder(resp.Body).Decode(&body); err != nil {
		return nil, err
	}
	if body.Error != "" {
		return nil, fmt.Errorf("prometheus: %s", body.Error)
	}
	names := map[string]bool{}
	for _, one := range body.Data.Result {
		names[cmp.Or(one.Metric.Alertname, one.Metric.Instance)] = true
	}
	return names, nil
}
