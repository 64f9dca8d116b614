package cluster

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// outcome is what one loss did.
type outcome struct {
	Kind, Host string
	Led        []string
	Promotion  time.Duration // of PostgreSQL's standby, from the loss on
	Writes     time.Duration // longest time without an acknowledged write, from the loss until all was whole again
	Failed     int           // reads
	During     time.Duration // from the first to the last read that failed while the host was away
	Returning  time.Duration // the same from its return on
	Whole      time.Duration // from its return until all was whole
	Stood      time.Duration // longest time for which the client stood still
}

func (o *outcome) leads(part string) bool { return slices.Contains(o.Led, part) }

func (o outcome) readsFail() time.Duration { return max(o.During, o.Returning) }

func (o *outcome) measure(l *load, begin, returned, whole time.Time) {
	var after int
	o.Writes = l.longest(begin, whole)
	o.Failed, o.During = l.readsFailed(begin.Add(-readLimit), returned)
	after, o.Returning = l.readsFailed(returned, whole)
	o.Failed += after
	o.Whole = whole.Sub(returned)
	o.Stood = l.stoodStill()
}

// stoodStill returns the longest time since its last call for which this process did not get to send anything: the machine was busy
// with something else, and the figures are not those of the cluster.
func (l *load) stoodStill() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	stood := l.stood
	l.stood = 0
	return stood
}

// report is what all losses did: those of the file, and those of this run, which it adds to the file.
type report struct {
	file     string // none if empty
	outcomes []outcome
	earlier  int // how many of the outcomes are those of earlier runs
}

func newReport(t *testing.T) *report {
	t.Helper()
	r := &report{file: os.Getenv("CLUSTER_FIGURES")}
	r.read(t)
	return r
}

// read reads the file, if it is there.
func (r *report) read(t *testing.T) {
	t.Helper()
	text, err := os.ReadFile(r.file)
	if r.file == "" || errors.Is(err, os.ErrNotExist) {
		return
	}
	for line := range bytes.Lines(text) {
		var o outcome
		err = errors.Join(err, json.Unmarshal(line, &o))
		r.outcomes = append(r.outcomes, o)
	}
	if err != nil {
		t.Fatalf("figures in %s: %v", r.file, err)
	}
	r.earlier = len(r.outcomes)
}

// verify fails the test if a loss of this run has missed a goal by far. It comes last: a goal that is missed ends no run of many rounds.
func (r *report) verify(t *testing.T) {
	t.Helper()
	if err := r.broken(); err != nil {
		t.Error(err)
	}
}

func (r *report) broken() error {
	var errs []error
	for _, o := range r.outcomes[r.earlier:] {
		for _, why := range o.broken() {
			errs = append(errs, fmt.Errorf("%s: %s", o, why))
		}
	}
	return errors.Join(errs...)
}

func (r *report) add(t *testing.T, o outcome) {
	t.Helper()
	r.outcomes = append(r.outcomes, o)
	t.Log(o)
	if r.file == "" {
		return
	}
	line, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(r.file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.Write(append(line, '\n'))
	if err = errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

// The table has the losses of the file that CLUSTER_FIGURES names, without a cluster. What is added to a file is read again; a goal that
// was missed by far fails only the run that missed it.
func TestFigures(t *testing.T) {
	newReport(t).print(t)
	r := &report{file: filepath.Join(t.TempDir(), "figures")}
	for _, writes := range []time.Duration{20 * time.Second, time.Second, 2 * time.Second} {
		r.add(t, outcome{Kind: "leader", Host: "a", Led: []string{"persdb"}, Writes: writes, Returning: writes / 2})
	}
	again := &report{file: r.file}
	again.read(t)
	const want = "| leader persdb | 3 | 2 of 3 | 2.0 / 20.0 | 0.0 / 0.0 | 1.0 / 10.0 | 0.0 / 0.0 | 0.0 / 0.0 |"
	if got := again.table(); !strings.HasSuffix(got, want) {
		t.Errorf("got %s, want the line %s", got, want)
	}
	if err := again.broken(); err != nil {
		t.Errorf("an earlier run: got %v, want no error", err)
	}
	if err := r.broken(); err == nil || !strings.Contains(err.Error(), "no write was acknowledged for 20.0 s") {
		t.Errorf("this run: got %v, want the loss that took 20 s", err)
	}
}

func (o outcome) String() string {
	return fmt.Sprintf("%s %s (%s): writes %s (promotion %s), %d reads failed within %s and %s, whole %s after return; the client stood still for %s",
		o.Kind, o.Host, cmp.Or(strings.Join(o.Led, ", "), "led nothing"), seconds(o.Writes), seconds(o.Promotion), o.Failed, seconds(o.During), seconds(o.Returning), seconds(o.Whole), seconds(o.Stood))
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }

func (r *report) print(t *testing.T) {
	t.Helper()
	t.Log("losses, times in seconds as median / longest\n" + r.table())
}

// table has for each kind of loss the median and the longest of each time.
func (r *report) table() string {
	kinds := map[string][]outcome{}
	for _, o := range r.outcomes {
		name := o.Kind
		if name == "leader" {
			name += " " + o.Led[0]
		}
		kinds[name] = append(kinds[name], o)
	}
	lines := []string{"| lost | times | within the goals | without a write | of it promotion | reads fail | whole after return | client stood still |", "|---|---|---|---|---|---|---|---|"}
	for _, name := range slices.Sorted(maps.Keys(kinds)) {
		all, within := kinds[name], 0
		for _, o := range all {
			if len(o.missed()) == 0 {
				within++
			}
		}
		lines = append(lines, fmt.Sprintf("| %s | %d | %d of %d | %s | %s | %s | %s | %s |", name, len(all), within, len(all),
			spread(all, func(o outcome) time.Duration { return o.Writes }), spread(all, func(o outcome) time.Duration { return o.Promotion }),
			spread(all, outcome.readsFail), spread(all, func(o outcome) time.Duration { return o.Whole }), spread(all, func(o outcome) time.Duration { return o.Stood })))
	}
	return strings.Join(lines, "\n")
}

func spread(all []outcome, of func(outcome) time.Duration) string {
	times := make([]time.Duration, len(all))
	for i, o := range all {
		times[i] = of(o)
	}
	slices.Sort(times)
	return fmt.Sprintf("%.1f / %.1f", times[len(times)/2].Seconds(), times[len(times)-1].Seconds())
}
