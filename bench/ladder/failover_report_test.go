package ladder

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"rideshare/system"
)

// at is a moment of the tests, in milliseconds.
func at(ms int) time.Time { return time.Unix(1000, 0).Add(time.Duration(ms) * time.Millisecond) }

func write(due, end, status int) answered {
	return answered{due: at(due), end: at(end), status: status}
}

// The time without writes runs from the kill to the first acknowledgement of a write that was sent after the kill; a
// write in flight at the kill does not count.
func TestFailoverReport_OneKill_TimesAndCounts(t *testing.T) {
	f := &failover{FailoverConfig: FailoverConfig{Mode: FailoverKill}, load: &failoverLoad{
		writes: []answered{
			write(0, 5, http.StatusOK), write(90, 130, http.StatusOK), write(110, 300, http.StatusOK), write(120, 290, http.StatusServiceUnavailable),
			write(130, 280, http.StatusGatewayTimeout), write(140, 310, 0), write(150, 312, http.StatusTeapot),
		},
		reads: []answered{write(0, 10, http.StatusOK), write(0, 20, http.StatusServiceUnavailable)},
	}}
	r := f.report([]kill{{pid: 7, at: at(100), whole: at(400)}}, []change{
		{at: at(90), PID: 7, Change: "died"}, // an earlier one
		{at: at(110), PID: 7, Change: "died"},
		{at: at(120), PID: 8, Role: "master", Change: "assigned"},
		{at: at(150), PID: 9, Role: "slave", Change: "serving"},
		{at: at(410), PID: 8, Role: "master", Change: "serving"}, // heard after the system was seen whole
	}, at(420))
	for name, one := range map[string]struct {
		got  Spread
		want float64
	}{"unavailable": {r.Unavailable, 200}, "gap": {r.Gap, 170}, "died": {r.Died, 10}, "named": {r.Named, 20}, "serving": {r.Serving, 310}} {
		if one.got != (Spread{P50: one.want, P90: one.want, P99: one.want, Max: one.want, N: 1, P99IsMax: true}) {
			t.Errorf("%s: got %+v, want %v ms", name, one.got, one.want)
		}
	}
	if want := (Calls{Sent: 7, OK: 3, Refused: 1, Unknown: 2, Other: 1}); r.Writes != want {
		t.Errorf("writes: got %+v, want %+v", r.Writes, want)
	}
	var page strings.Builder
	if err := r.Print(&page); err != nil || !strings.Contains(page.String(), "reads: 2 sent, 1 errors, p99 10.0 ms") {
		t.Errorf("page: got %v\n%s", err, page.String())
	}
}

// A time without an acknowledgement begins before its kill. It counts for that kill alone, not for the kill before it too.
func TestFailoverReport_TwoKills_EachHasItsOwnGap(t *testing.T) {
	var writes []answered
	for ms := 0; ms <= 2000; ms += 10 {
		if first, second := ms > 100 && ms < 150, ms > 1000 && ms < 1200; !first && !second {
			writes = append(writes, write(ms, ms, http.StatusOK))
		}
	}
	f := &failover{load: &failoverLoad{writes: writes}}
	r := f.report([]kill{{pid: 7, at: at(105), whole: at(400)}, {pid: 8, at: at(1005), whole: at(1300)}}, nil, at(2000))
	if want := (Spread{P50: 50, P90: 200, P99: 200, Max: 200, N: 2, P99IsMax: true}); r.Gap != want {
		t.Errorf("got %+v, want %+v", r.Gap, want)
	}
}

// If writes never come back, the time without them runs to the end of the load, and no goal is met.
func TestFailoverReport_WritesNeverBack_GapRunsToTheEnd(t *testing.T) {
	for name, test := range map[string]struct {
		last answered // acknowledgement
		gap  float64
	}{"NoneAfterTheKill": {write(10, 30, http.StatusOK), 220}, "OnlyInFlight": {write(10, 50, http.StatusOK), 200}} {
		writes := []answered{write(0, 5, http.StatusOK), test.last, write(90, 290, http.StatusServiceUnavailable), write(110, 120, 0)}
		f := &failover{FailoverConfig: FailoverConfig{Mode: FailoverKill, Processes: &system.Processes{}}, load: &failoverLoad{writes: writes}}
		r := f.report([]kill{{pid: 7, at: at(40), whole: at(60)}}, nil, at(250))
		if r.Gap.Max != test.gap || r.Unavailable.N != 0 || !errors.Is(r.wrong(), ErrNotBack) {
			t.Errorf("%s: got %+v and %v, want a gap of %v ms and an error", name, r, r.wrong(), test.gap)
		}
		for _, g := range r.Goals {
			if g.Met {
				t.Errorf("%s: got %v, want it missed", name, g)
			}
		}
	}
}

func TestSpread_TenTimes_NearestRanks(t *testing.T) {
	var times []time.Duration
	for i := 10; i > 0; i-- {
		times = append(times, time.Duration(i)*time.Millisecond)
	}
	if got, want := spread(times), (Spread{P50: 5, P90: 9, P99: 10, Max: 10, N: 10, P99IsMax: true}); got != want {
		t.Errorf("spread: got %+v, want %+v", got, want)
	}
}

// Fewer than 300 kills have no p99: the maximum is shown in its place, under that name.
func TestFailoverReport_Kills_P99FromThreeHundred(t *testing.T) {
	for kills, want := range map[int]Spread{
		299: {P50: 150, P90: 270, P99: 299, Max: 299, N: 299, P99IsMax: true},
		300: {P50: 150, P90: 270, P99: 297, Max: 300, N: 300},
	} {
		var times []time.Duration
		for i := range kills {
			times = append(times, time.Duration(i+1)*time.Millisecond)
		}
		r := &FailoverReport{Kills: kills, Gap: spread(times)}
		if r.Gap != want {
			t.Errorf("%d kills: got %+v, want %+v", kills, r.Gap, want)
		}
		var page strings.Builder
		if err := r.Print(&page); err != nil {
			t.Fatal(err)
		}
		if few := kills < 300; strings.Contains(page.String(), "  p99  ") == few || strings.Contains(page.String(), "max is the longest of 299") != few || strings.Contains(page.String(), " 297.0") == few {
			t.Errorf("%d kills: got\n%s", kills, page.String())
		}
	}
}

// The goals are about the longest time without an acknowledgement, however soon the first one came.
func TestFailoverReport_Goals_AreAboutTheLongestGap(t *testing.T) {
	few, many := Spread{P50: 300, P99: 1200, N: 50, P99IsMax: true}, Spread{P50: 300, P99: 1200, N: 300}
	for name, test := range map[string]struct {
		FailoverConfig
		gap  Spread
		want string
	}{
		"Processes":   {FailoverConfig{Mode: FailoverKill, Processes: &system.Processes{}}, many, "p50 ms <= 250: 300.00, MISSED; p99 ms <= 1000: 1200.00, MISSED"},
		"FewKills":    {FailoverConfig{Mode: FailoverKill, Processes: &system.Processes{}}, few, "p50 ms <= 250: 300.00, MISSED; longest of 50, ms <= 1000: 1200.00, MISSED"},
		"Containers":  {FailoverConfig{Mode: FailoverCrash, Orchestrator: "http://host"}, many, "p50 ms <= 400: 300.00, met; p99 ms <= 1500: 1200.00, met"},
		"HandOver":    {FailoverConfig{Mode: FailoverPlanned, Processes: &system.Processes{}}, many, "p99 ms <= 100: 1200.00, MISSED"},
		"StandsStill": {FailoverConfig{Mode: FailoverPause, Processes: &system.Processes{}}, many, "p99 ms <= 1500: 1200.00, met"},
		"Spins":       {FailoverConfig{Mode: FailoverSpin, Processes: &system.Processes{}}, many, "p99 ms <= 1500: 1200.00, met"},
		"Embedded":    {FailoverConfig{Mode: FailoverKill}, many, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := &failover{FailoverConfig: test.FailoverConfig}
			var got []string
			for _, g := range f.goals(&FailoverReport{Kills: test.gap.N, Unavailable: Spread{P50: 1, P99: 2, N: test.gap.N}, Gap: test.gap}) {
				got = append(got, strings.TrimPrefix(g.String(), "time without an acknowledgement, "))
			}
			if text := strings.Join(got, "; "); text != test.want {
				t.Errorf("got %q, want %q", text, test.want)
			}
		})
	}
}
