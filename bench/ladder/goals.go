package ladder

import (
	"fmt"
	"strings"
)

// Goal is one target figure of the project.
type Goal struct {
	Name string  `json:"name"`
	Want float64 `json:"want"`
	// AtMost means that Want is an upper bound, not a lower one.
	AtMost bool    `json:"at_most"`
	Got    float64 `json:"got"`
	// Met is false, whatever Got is, if the P99 of a row of the goal lacks too many requests that were due and not sent.
	Met bool `json:"met"`
	// Unmeasured means that rqlite, with which the goal compares, was not there: Got and Met say nothing.
	Unmeasured bool `json:"unmeasured,omitempty"`
}

func (g Goal) String() string {
	if g.Unmeasured {
		return fmt.Sprintf("%s %s: %s", g.Name, g.wanted(), g.met())
	}
	return fmt.Sprintf("%s %s: %s, %s", g.Name, g.wanted(), g.got(), g.met())
}

func (g Goal) got() string {
	if g.Unmeasured {
		return ""
	}
	return fmt.Sprintf("%.2f", g.Got)
}

func (g Goal) wanted() string {
	if g.AtMost {
		return fmt.Sprintf("<= %g", g.Want)
	}
	return fmt.Sprintf(">= %g", g.Want)
}

func (g Goal) met() string {
	switch {
	case g.Unmeasured:
		return "not measured, needs --rqlite"
	case g.Met:
		return "met"
	default:
		return "MISSED"
	}
}

// GuardedShare is the least rate of point reads with all stages of the protection from overload, as a part of the rate
// without protection.
const GuardedShare = 0.97

// addGoals compares the measurements with the goals. It skips a goal whose rows are missing or invalid. If only the rows of rqlite
// are missing, the goal is in the report as not measured.
func (r *Report) addGoals() {
	for _, g := range []struct {
		ratio string
		want  float64
	}{
		{"point-read-hit/batched/inprocess", 1},
		{"20-row-read-hit/batched/inprocess", 1},
		{"point-read/batched/inprocess", 0.8},
		{"point-read-once/batched/batched-uncached", 0.95},
		{"count-distinct/batched/batched-uncached", 1000},
		{"mixed-90-10/batched/batched-uncached", 0.95},
		{"write/batched-2/batched-2-uncached", 0.95},
		{"point-read/batched-guarded/batched-unguarded", GuardedShare},
		{"point-read-once/batched-guarded/batched-unguarded", GuardedShare},
		{"point-read/batched/tutorial", 5},
		{"20-row-read/batched/inprocess", 0.9},
		{"write/batched-0/inprocess", 0.9},
		{"write/batched-2/inprocess", 0.6},
		{"write/batched/tutorial", 10},
		{"write/batched-postgres/batched", 0.45},
		{"ride-get/batched/point-read", 0.3},
		{"point-read-hit/batched/rqlite", 2},
		{"write/batched/rqlite-3", 1.5},
	} {
		got, ok := r.Ratios[g.ratio]
		if ok || r.lacksRqlite(g.ratio) {
			r.Goals = append(r.Goals, Goal{Name: g.ratio, Want: g.want, Got: got, Met: got >= g.want, Unmeasured: !ok})
		}
	}
	clients := r.cfg.Clients[0]
	// An answer from the read cache would not meet the queue.
	r.atMost("idle latency added to a point read by the queue, 1 client, p50 ms", 0.3, func(a, b *Row) float64 { return a.P50 - b.P50 },
		measurement{Work: workPoint, Path: pathUncached, Clients: 1}, measurement{Work: workPoint, Path: pathInProcess, Clients: 1})
	first := func(a, _ *Row) float64 { return a.P99 }
	open := func(work string) measurement {
		return measurement{Work: work, Path: pathBatched, Clients: clients, Open: true}
	}
	r.atMost("point read at half of the maximum, p99 ms", 10, first, open(workPoint), open(workPoint))
	r.atMost("20-row read at half of the maximum, p99 ms", 10, first, open(workRange), open(workRange))
	r.atMost("write at half of the maximum, p99 ms", 25, first, open(workWrite), open(workWrite))
	r.atMost("point read beside a slow statement / without, p99 at half of the maximum", 3,
		func(a, b *Row) float64 { return a.P99 / b.P99 }, open(workBesideSlow), open(workPoint))
}

// lacksRqlite reports whether a ratio is to a path of rqlite, which is not known, and its first path was measured.
func (r *Report) lacksRqlite(ratio string) bool {
	names := strings.Split(ratio, "/")
	return NeedsRqlite(names[2]) && r.cfg.Rqlite == "" && r.find(closedAt(names[0], names[1], r.cfg.Clients[0])) != nil
}

func (r *Report) atMost(name string, want float64, value func(a, b *Row) float64, a, b measurement) {
	first, second := r.find(a), r.find(b)
	if first == nil || second == nil || first.Invalid+second.Invalid != "" {
		return
	}
	got := value(first, second)
	r.Goals = append(r.Goals, Goal{Name: name, Want: want, AtMost: true, Got: got, Met: got <= want && !first.noP99() && !second.noP99()})
}
