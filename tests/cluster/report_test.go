package cluster

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// outcome is what one loss did.
type outcome struct {
	kind, host string
	led        []string
	promotion  time.Duration // of PostgreSQL's standby, from the loss on
	writes     time.Duration // longest time without an acknowledged write, from the loss until all was whole again
	failed     int           // reads
	during     time.Duration // from the first to the last read that failed while the host was away
	returning  time.Duration // the same from its return on
	whole      time.Duration // from its return until all was whole
}

func (o *outcome) leads(part string) bool { return slices.Contains(o.led, part) }

func (o *outcome) measure(l *load, begin, returned, whole time.Time) {
	var after int
	o.writes = l.longest(begin, whole)
	o.failed, o.during = l.readsFailed(begin.Add(-tryLimit), returned)
	after, o.returning = l.readsFailed(returned, whole)
	o.failed += after
	o.whole = whole.Sub(returned)
}

// report is what all losses did.
type report struct{ outcomes []outcome }

func (r *report) add(t *testing.T, o outcome) {
	t.Helper()
	r.outcomes = append(r.outcomes, o)
	t.Log(o)
}

func (o outcome) String() string {
	return fmt.Sprintf("%s %s (%s): writes %s (promotion %s), %d reads failed within %s and %s, whole %s after return",
		o.kind, o.host, cmp.Or(strings.Join(o.led, ", "), "led nothing"), seconds(o.writes), seconds(o.promotion), o.failed, seconds(o.during), seconds(o.returning), seconds(o.whole))
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }

// print shows a table: for each kind the median and the longest of each time.
func (r *report) print(t *testing.T) {
	t.Helper()
	kinds := map[string][]outcome{}
	for _, o := range r.outcomes {
		name := o.kind
		if name == "leader" {
			name += " " + o.led[0]
		}
		kinds[name] = append(kinds[name], o)
	}
	lines := []string{"losses, times in seconds as median / longest", "| lost | times | without a write | of it promotion | reads fail | whole after return |", "|---|---|---|---|---|---|"}
	for _, name := range slices.Sorted(maps.Keys(kinds)) {
		all := kinds[name]
		lines = append(lines, fmt.Sprintf("| %s | %d | %s | %s | %s | %s |", name, len(all),
			spread(all, func(o outcome) time.Duration { return o.writes }), spread(all, func(o outcome) time.Duration { return o.promotion }),
			spread(all, func(o outcome) time.Duration { return max(o.during, o.returning) }), spread(all, func(o outcome) time.Duration { return o.whole })))
	}
	t.Log(strings.Join(lines, "\n"))
}

func spread(all []outcome, of func(outcome) time.Duration) string {
	times := make([]time.Duration, len(all))
	for i, o := range all {
		times[i] = of(o)
	}
	slices.Sort(times)
	return fmt.Sprintf("%.1f / %.1f", times[len(times)/2].Seconds(), times[len(times)-1].Seconds())
}
