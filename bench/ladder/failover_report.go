package ladder

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"text/tabwriter"
	"time"
)

// Spread is the distribution of a time over the kills, in milliseconds.
type Spread struct {
	P50 float64 `json:"p50_ms"`
	P90 float64 `json:"p90_ms"`
	P99 float64 `json:"p99_ms"`
	Max float64 `json:"max_ms"`
	N   int     `json:"n"`
	// P99IsMax means that N is below p99From, so that P99 is the maximum and not a percentile.
	P99IsMax bool `json:"p99_is_max,omitempty"`
}

// p99From is how many samples a p99 needs: with so many, three are above it.
const p99From = 300

// Calls counts answers. Refused is 503, certainly not done; Unknown is 504 or no answer.
type Calls struct {
	Sent    int `json:"sent"`
	OK      int `json:"ok"`
	Refused int `json:"refused"`
	Unknown int `json:"unknown"`
	Other   int `json:"other"`
}

// FailoverReport is the result of Failover.
type FailoverReport struct {
	Machine map[string]string `json:"machine"`
	Mode    FailoverMode      `json:"mode"`
	System  string            `json:"system"`
	Kills   int               `json:"kills"`
	// Unavailable is the time from the kill to the first acknowledgement of a write sent after it; a kill without such an
	// acknowledgement is missing in its N. Gap is the longest time without any acknowledgement that overlaps the time from the
	// kill until the system is complete again. It ends with the load at the latest.
	Unavailable Spread `json:"unavailable"`
	Gap         Spread `json:"gap"`
	// Died, Named and Serving are when the control loop reported the death, the new master, and that the new master
	// serves.
	Died    Spread `json:"died"`
	Named   Spread `json:"named"`
	Serving Spread `json:"serving"`
	Writes  Calls  `json:"writes"`
	Reads   Calls  `json:"reads"`
	// ReadP99 and ReadMax are latencies of answered reads, from their due time, in milliseconds.
	ReadP99 float64 `json:"read_p99_ms"`
	ReadMax float64 `json:"read_max_ms"`
	// Goals are for Gap, which is what a client sees.
	Goals []Goal `json:"goals,omitempty"`
	// Lost writes were acknowledged and are missing. Doubled writes are there twice. Unasked writes are there, although they
	// were refused or never sent. All must be 0.
	Lost    int `json:"lost"`
	Doubled int `json:"doubled"`
	Unasked int `json:"unasked"`
}

// report computes the report of a load that ended at ended.
func (f *failover) report(kills []kill, changes []change, ended time.Time) *FailoverReport {
	l := f.load
	r := &FailoverReport{Machine: machine(), Mode: f.Mode, System: f.about(), Kills: len(kills), Writes: count(l.writes), Reads: count(l.reads)}
	acks := slices.DeleteFunc(slices.Clone(l.writes), func(a answered) bool { return a.status != http.StatusOK })
	slices.SortFunc(acks, func(a, b answered) int { return a.end.Compare(b.end) })
	var unavailable, gaps, died, named, serving []time.Duration
	for i, k := range kills {
		seenUntil := ended // an event may arrive after the cluster was seen complete
		if i+1 < len(kills) {
			seenUntil = kills[i+1].at
		}
		if first, ok := firstAck(acks, k.at); ok {
			unavailable = append(unavailable, first.Sub(k.at))
		}
		gaps = append(gaps, longestGap(acks, k, ended))
		for _, part := range []struct {
			into *[]time.Duration
			is   func(change) bool
		}{
			{&died, func(c change) bool { return c.PID == k.pid && (c.Change == "died" || c.Change == "lost") }},
			{&named, func(c change) bool { return c.Role == "master" && c.Change == "assigned" }},
			{&serving, k.serves},
		} {
			if at, ok := firstChange(changes, k.at, seenUntil, part.is); ok {
				*part.into = append(*part.into, at.Sub(k.at))
			}
		}
	}
	r.Unavailable, r.Gap = spread(unavailable), spread(gaps)
	r.Died, r.Named, r.Serving = spread(died), spread(named), spread(serving)
	var latencies []time.Duration
	for _, a := range l.reads {
		if a.status == http.StatusOK {
			latencies = append(latencies, a.end.Sub(a.due))
		}
	}
	r.Goals = f.goals(r)
	reads := spread(latencies)
	r.ReadP99, r.ReadMax = reads.P99, reads.Max
	return r
}

func (f *failover) about() string {
	switch {
	case f.Orchestrator != "":
		return f.Orchestrator
	case f.Processes != nil:
		return "RabbitMQ, ZooKeeper, processes"
	default:
		return "embedded"
	}
}

// firstAck returns when the first write that was sent after at was acknowledged.
func firstAck(acks []answered, at time.Time) (time.Time, bool) {
	i := slices.IndexFunc(acks, func(a answered) bool { return !a.due.Before(at) })
	if i < 0 {
		return time.Time{}, false
	}
	return acks[i].end, true
}

// longestGap returns the longest time without an acknowledgement that overlaps the time from a kill until the system is complete
// again. The last such time ends with the load.
func longestGap(acks []answered, k kill, ended time.Time) time.Duration {
	longest, last := time.Duration(0), k.at
	for _, a := range slices.Concat(acks, []answered{{end: ended}}) {
		if a.end.After(k.at) && last.Before(k.whole) {
			longest = max(longest, a.end.Sub(last))
		}
		last = a.end
	}
	return longest
}

func firstChange(changes []change, from, until time.Time, is func(change) bool) (time.Time, bool) {
	i := slices.IndexFunc(changes, func(c change) bool { return c.at.After(from) && c.at.Before(until) && is(c) })
	if i < 0 {
		return time.Time{}, false
	}
	return changes[i].at, true
}

func count(calls []answered) Calls {
	c := Calls{Sent: len(calls)}
	for _, a := range calls {
		switch a.status {
		case http.StatusOK:
			c.OK++
		case http.StatusServiceUnavailable:
			c.Refused++
		case http.StatusGatewayTimeout, 0:
			c.Unknown++
		default:
			c.Other++
		}
	}
	return c
}

// spread sorts times and returns the nearest ranks.
func spread(times []time.Duration) Spread {
	if len(times) == 0 {
		return Spread{}
	}
	slices.SortFunc(times, cmp.Compare)
	rank := func(q float64) float64 {
		i := int(math.Ceil(q*float64(len(times)))) - 1
		return float64(times[max(i, 0)].Microseconds()) / 1000
	}
	s := Spread{P50: rank(0.5), P90: rank(0.9), P99: rank(0.99), Max: rank(1), N: len(times)}
	if s.N < p99From {
		s.P99, s.P99IsMax = s.Max, true
	}
	return s
}

// NotBack returns after how many kills no write was acknowledged any more.
func (r *FailoverReport) NotBack() int { return r.Kills - r.Unavailable.N }

// wrong returns what makes the run fail.
func (r *FailoverReport) wrong() error {
	var lost, away error
	if r.Lost+r.Doubled+r.Unasked > 0 {
		lost = fmt.Errorf("%w: %d lost, %d doubled, %d unasked", ErrWrong, r.Lost, r.Doubled, r.Unasked)
	}
	if n := r.NotBack(); n > 0 {
		away = fmt.Errorf("%w: no write was acknowledged after %d of %d kills", ErrNotBack, n, r.Kills)
	}
	return errors.Join(lost, away)
}

// goals compares the longest time without an acknowledgement with its goal. The embedded system has no goals.
func (f *failover) goals(r *FailoverReport) []Goal {
	last := "p99 ms"
	if r.Gap.P99IsMax {
		last = fmt.Sprintf("longest of %d, ms", r.Gap.N)
	}
	var goals []Goal
	atMost := func(name string, want, got float64) {
		goals = append(goals, Goal{Name: "time without an acknowledgement, " + name, Want: want, AtMost: true, Got: got, Met: got <= want && r.NotBack() == 0})
	}
	switch {
	case f.Mode == FailoverPlanned:
		atMost(last, 100, r.Gap.P99)
	case f.Mode.Hangs():
		atMost(last, 1500, r.Gap.P99)
	case f.Orchestrator != "": // containers
		atMost("p50 ms", 400, r.Gap.P50)
		atMost(last, 1500, r.Gap.P99)
	case f.Processes != nil:
		atMost("p50 ms", 250, r.Gap.P50)
		atMost(last, 1000, r.Gap.P99)
	}
	return goals
}

// Print writes the report as a table. For few kills it has no p99.
func (r *FailoverReport) Print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	p99 := func(text string) string {
		if r.Kills < p99From {
			return ""
		}
		return text + "\t"
	}
	_, _ = fmt.Fprintf(w, "%s, %d x %s, in ms after it\tp50\tp90\t%smax\tn\t\n", r.System, r.Kills, r.Mode, p99("p99")) // Flush returns the error; as below.
	for _, row := range []struct {
		name string
		Spread
	}{
		{"longest time without an acknowledgement", r.Gap},
		{"first acknowledged write sent after it", r.Unavailable},
		{"loss of the master noticed", r.Died},
		{"new master named", r.Named},
		{"new master serving", r.Serving},
	} {
		_, _ = fmt.Fprintf(w, "%s\t%.1f\t%.1f\t%s%.1f\t%d\t\n", row.name, row.P50, row.P90, p99(fmt.Sprintf("%.1f", row.P99)), row.Max, row.N)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if r.Kills < p99From {
		_, _ = fmt.Fprintf(out, "no p99 of fewer than %d kills: max is the longest of %d\n", p99From, r.Kills) // the last one returns the error; as below.
	}
	for _, g := range r.Goals {
		_, _ = fmt.Fprintf(out, "goal: %s\n", g)
	}
	_, err := fmt.Fprintf(out, "writes: %d sent, %d acknowledged, %d refused (503), %d unknown (504), %d others\n"+
		"reads: %d sent, %d errors, p99 %.1f ms, max %.1f ms\nlost writes: %d, doubled writes: %d, unasked writes: %d\n",
		r.Writes.Sent, r.Writes.OK, r.Writes.Refused, r.Writes.Unknown, r.Writes.Other,
		r.Reads.Sent, r.Reads.Sent-r.Reads.OK, r.ReadP99, r.ReadMax, r.Lost, r.Doubled, r.Unasked)
	return err
}
