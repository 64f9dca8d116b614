package overload

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"rideshare/bench/ladder"
	"rideshare/bench/loadgen"
)

// Result is what a scene has shown.
type Result struct {
	Scene  string  `json:"scene"`
	About  string  `json:"about"`
	System Start   `json:"system"`
	Short  bool    `json:"short"`
	Stages []Stage `json:"stages"`
	Checks []Check `json:"checks"`
	// Ladder and Failover are the reports of the scenes that compare two systems.
	Ladder   *ladder.Report           `json:"ladder,omitempty"`
	Failover []*ladder.FailoverReport `json:"failover,omitempty"`
	OK       bool                     `json:"ok"`
}

// Stage is the requests of one user in one stage.
type Stage struct {
	Name     string        `json:"name"`
	User     string        `json:"user,omitempty"`
	Work     string        `json:"work"`
	Loop     loadgen.Loop  `json:"loop"`
	Level    float64       `json:"level"` // requests a second, or clients
	Took     time.Duration `json:"took_ns"`
	Accepted int64         `json:"accepted"`
	// InTime is how many of the accepted were answered before the end of the stage.
	InTime  int64 `json:"accepted_in_time"`
	Refused int64 `json:"refused"`
	// Other counts those of the refused that did not have the reason that the stage is about.
	Other int64 `json:"refused_otherwise,omitempty"`
	// Failed counts everything else: 504, no answer, a wrong answer.
	Failed int64 `json:"failed"`
	// Unsent counts requests of an open loop that were due and not sent before the end of the stage.
	Unsent  int64            `json:"unsent,omitempty"`
	Reasons map[string]int64 `json:"reasons,omitempty"`
	// Latencies count from when a request was due.
	AcceptedP50 time.Duration `json:"accepted_p50_ns"`
	AcceptedP99 time.Duration `json:"accepted_p99_ns"`
	AcceptedMax time.Duration `json:"accepted_max_ns"`
	RefusedP99  time.Duration `json:"refused_p99_ns"`
}

func (r *Result) add(f figures) {
	s := Stage{
		Name: f.stage, User: f.user, Work: f.work, Loop: f.loop, Level: f.level, Took: f.took, Accepted: f.accepted.Count, InTime: f.inTime, Refused: f.refused.Count + f.other.Count, Other: f.other.Count, Failed: f.failed.Count, Unsent: f.unsent,
		AcceptedP50: f.accepted.P50, AcceptedP99: f.accepted.P99, AcceptedMax: f.accepted.Max, RefusedP99: f.refused.P99, Reasons: map[string]int64{},
	}
	maps.Copy(s.Reasons, f.refused.Failures)
	for _, failures := range []map[string]int64{f.other.Failures, f.failed.Failures} {
		for reason, n := range failures {
			s.Reasons[reason] += n
		}
	}
	r.Stages = append(r.Stages, s)
}

func (s Stage) String() string {
	text := fmt.Sprintf("%s %s%s: %g/s", s.Name, s.Work, of(s.User), s.Level)
	if s.Loop == loadgen.Closed {
		text = fmt.Sprintf("%s %s%s: %g clients", s.Name, s.Work, of(s.User), s.Level)
	}
	text = fmt.Sprintf("%s, accepted %d (p99 %v), refused %d, failed %d%s", text, s.Accepted, s.AcceptedP99, s.Refused, s.Failed, reasonsText(s.Reasons))
	if s.Unsent > 0 {
		text += fmt.Sprintf(", due and not sent %d", s.Unsent)
	}
	return text
}

func of(user string) string {
	if user == "" {
		return ""
	}
	return " of " + user
}

func reasonsText(reasons map[string]int64) string {
	var parts []string
	for _, reason := range slices.Sorted(maps.Keys(reasons)) {
		parts = append(parts, fmt.Sprintf("%s %d", reason, reasons[reason]))
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

// Check is one thing that was judged.
type Check struct {
	Name string `json:"name"`
	Got  string `json:"got"`
	Want string `json:"want"`
	OK   bool   `json:"ok"`
}

// check judges a count.
func (r *Result) check(name string, got, most int) {
	want := fmt.Sprint("at most ", most)
	if most == 0 {
		want = "0"
	}
	r.Checks = append(r.Checks, Check{name, fmt.Sprint(got), want, got <= most})
}

// atLeast and atMost judge a figure that depends on the speed of the machine.
func (r *Result) atLeast(name string, got, least float64) {
	r.Checks = append(r.Checks, Check{name, fmt.Sprintf("%.4g", got), fmt.Sprintf(">= %.4g", least), got >= least})
}

func (r *Result) atMost(name string, got, most float64) {
	r.Checks = append(r.Checks, Check{name, fmt.Sprintf("%.4g", got), fmt.Sprintf("<= %.4g", most), got <= most})
}

// sent judges that an overload was sent.
func (r *Result) sent(name string, f figures) {
	due := f.accepted.Count + f.refused.Count + f.other.Count + f.failed.Count + f.unsent
	r.atMost(name+": due and not sent, %", 100*float64(f.unsent)/float64(max(due, 1)), unsentShare)
}

func (r *Result) finish() {
	r.OK = len(r.Checks) > 0 && !slices.ContainsFunc(r.Checks, func(c Check) bool { return !c.OK })
}

// Print writes what was judged, for a terminal. The stages were written as progress.
func (r *Result) Print(w io.Writer) error {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintf(out, "%s: %s\n", r.Scene, r.About) // the writer keeps an error until Flush.
	for _, c := range r.Checks {
		verdict := "ok"
		if !c.OK {
			verdict = "MISSED"
		}
		_, _ = fmt.Fprintf(out, "%s\t%s\t%s\twant %s\n", verdict, c.Name, c.Got, c.Want) // as above.
	}
	if r.Short {
		_, _ = fmt.Fprintln(out, "the short form judges no times and no rates") // as above.
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("print result: %w", err)
	}
	return nil
}
