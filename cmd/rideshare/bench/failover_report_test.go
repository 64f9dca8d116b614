package bench

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// at is a moment of the tests, in milliseconds.
func at(ms int) time.Time { return time.Unix(1000, 0).Add(time.Duration(ms) * time.Millisecond) }

func write(due, end, status int) answered {
	return answered{due: at(due), end: at(end), status: status}
}

// The time without writes runs from the kill to the first acknowledgement of a write that was sent
// after it, not of one that was under way.
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
	})
	for name, one := range map[string]struct {
		got  Spread
		want float64
	}{"unavailable": {r.Unavailable, 200}, "gap": {r.Gap, 170}, "died": {r.Died, 10}, "named": {r.Named, 20}, "serving": {r.Serving, 310}} {
		if one.got != (Spread{P50: one.want, P90: one.want, P99: one.want, Max: one.want, N: 1}) {
			t.Errorf("%s: got %+v, want %v ms", name, one.got, one.want)
		}
	}
	if want := (Calls{Sent: 7, OK: 3, Refused: 1, Unknown: 2, Other: 1}); r.Writes != want {
		t.Errorf("writes: got %+v, want %+v", r.Writes, want)
	}
	var page strings.Builder
	if err := r.Print(&page); err != nil || !strings.Contains(page.String(), "reads: 2 sent, 1 errors") {
		t.Errorf("page: got %v\n%s", err, page.String())
	}
}

func TestSpread_TenTimes_NearestRanks(t *testing.T) {
	var times []time.Duration
	for i := 10; i > 0; i-- {
		times = append(times, time.Duration(i)*time.Millisecond)
	}
	if got, want := spread(times), (Spread{P50: 5, P90: 9, P99: 10, Max: 10, N: 10}); got != want {
		t.Errorf("spread: got %+v, want %+v", got, want)
	}
}
