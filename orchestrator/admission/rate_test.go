package admission

import (
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"rideshare/internal/dbaas"
)

// Tokens are given exactly when the bucket has them.
func TestLimit_Vectors(t *testing.T) {
	for _, c := range []struct {
		limit string
		at    []float64
		given string
	}{
		{"2:3", []float64{0, 0, 0, 0, .4, .5, .9, 1, 10, 10, 10, 10}, "yyynnynyyyyn"},
		{"2:1:0", []float64{.4, .8, 1.2, 1.6, 2, 2.4, 2.8}, "nynynyn"},
	} {
		limit, err := ParseLimit(c.limit)
		if err != nil {
			t.Fatal(err)
		}
		b := newBucket(limit, at(0))
		var given []byte
		for _, when := range c.at {
			answer := byte('y')
			if refused := takeBoth(b, nil, at(when)); refused != nil {
				e, _ := errors.AsType[*dbaas.Error](refused)
				if len(given) == 3 && (e.RetryAfter != 500*time.Millisecond || e.Reason != dbaas.ReasonUserRate || e.Code != dbaas.CodeQuota) {
					t.Errorf("the first refusal is %+v, want user_rate for 500 ms", e)
				}
				answer = 'n'
			}
			given = append(given, answer)
		}
		if string(given) != c.given {
			t.Errorf("%s: given %s, want %s", c.limit, given, c.given)
		}
	}
}

func TestLimit_FlashSale(t *testing.T) {
	limit, err := ParseLimit("flash-1000")
	if err != nil {
		t.Fatal(err)
	}
	b := newBucket(limit, at(0))
	given := func(n int, now time.Time) (given int) {
		for range n {
			if takeBoth(b, nil, now) == nil {
				given++
			}
		}
		return given
	}
	if first, second := given(60_000, at(0)), given(2000, at(1)); first != 50_000 || second != 1000 {
		t.Errorf("given %d, then %d, want 50,000, then 1,000", first, second)
	}
}

// A request that one bucket refuses takes no token of the other.
func TestTakeBoth_BothOrNone(t *testing.T) {
	user, class := newBucket(Limit{1, 1, 1}, at(0)), newBucket(Limit{1, 2, 2}, at(0))
	other := newBucket(Limit{1, 1, 1}, at(0))
	reason := func(b *bucket) string { return dbaas.ReasonOf(takeBoth(b, class, at(0))) }
	got := []string{reason(user), reason(user), reason(other), reason(newBucket(Limit{1, 1, 1}, at(0)))}
	if want := []string{"", dbaas.ReasonUserRate, "", dbaas.ReasonClassRate}; !slices.Equal(got, want) {
		t.Errorf("got reasons %q, want %q", got, want)
	}
	if q := class.quota(Write, at(0.5)); q.Left != 0 || q.Full != 1500*time.Millisecond || q.Window != 2*time.Second {
		t.Errorf("got %+v, want nothing left and full in 1.5 s", q)
	}
	policy, state := newBucket(Limit{5000, 5000, 37}, at(0)).quota(Write, at(0)).Headers()
	if policy != `"write";q=5000;w=1` || state != `"write";r=37;t=1` {
		t.Errorf("got headers %s and %s", policy, state)
	}
}

func TestParseLimit_Malformed(t *testing.T) {
	for _, text := range []string{"5", "a:1", "1:a", "0:1", "-1:1", "1:0", "1:2:3", "1:2:-1", "1:2:3:4", "NaN:1", "Inf:1", "steady", "1:99999999999"} {
		if l, err := ParseLimit(text); err == nil {
			t.Errorf("%q: got %+v, want an error", text, l)
		}
	}
}

// Nine tenths of a limit follow the requests of the last 10 s.
func TestShareOut(t *testing.T) {
	shares := shareOut(map[string][classes]uint64{"a": {0, 500, 0}, "b": {}, "c": {}})
	for name, want := range map[string]float64{"a": 840, "b": 30, "c": 30} {
		if got := 900 * shares[name][Write]; got < want-1e-6 || got > want+1e-6 {
			t.Errorf("%s: got %g of 900, want %g", name, got, want)
		}
		if got := 900 * shares[name][Read]; got < 299.99 || got > 300.01 {
			t.Errorf("%s: got %g of 900 without any request, want 300", name, got)
		}
	}
}

// The leader lowers shares first, and raises others only when the old shares no longer count. It writes at most once a second.
func TestLeases_RaisedALeaseAfterOthersWereLowered(t *testing.T) {
	half, whole := parts{.5, .5, .5}, parts{1, 1, 1}
	both := map[string][classes]uint64{"a": {}, "b": {}}
	for _, c := range []struct {
		name    string
		present map[string]parts
		asked   map[string][classes]uint64
		steps   []any // the time of a look, and what is written then, or nil
	}{
		{"another joins", map[string]parts{"a": whole}, both, []any{
			.9, nil, 1.0, map[string]parts{"a": half}, 2.0, nil, 3.0, nil, 3.001, map[string]parts{"a": half, "b": half}, 10.0, nil,
		}},
		{"the other dies", map[string]parts{"a": half, "b": half}, map[string][classes]uint64{"a": {}}, []any{
			1.0, map[string]parts{"a": half}, 3.0, nil, 3.001, map[string]parts{"a": whole},
		}},
		{"the first shares wait for those that are forgotten", nil, both, []any{
			1.0, nil, 2.0, nil, 2.001, map[string]parts{"a": half, "b": half}, 2.5, nil,
		}},
		{"nobody asks", nil, nil, []any{5.0, nil}},
	} {
		l := leases{lowered: at(0), wrote: at(0)}
		for i := 0; i < len(c.steps); i += 2 {
			when, _ := c.steps[i].(float64)
			want, _ := c.steps[i+1].(map[string]parts)
			next, shares, write := l.next(at(when), c.present, c.asked)
			if l = next; write != (want != nil) || !maps.Equal(shares, want) {
				t.Errorf("%s, at %g: wrote %v, %t, want %v", c.name, when, shares, write, want)
			}
			if write {
				c.present = shares
			}
		}
	}
}

// What 64 goroutines are given within any time is at most the burst and the rate for that time.
func TestGate_Rate_NeverMoreThanTheLimit(t *testing.T) {
	play(t, func(c *Config) { c.Settings.Limits.Write, c.Settings.Limits.WriteTotal = "50:20", "none" }, func(r *rig) {
		given := hammer(r.T, 10*time.Second, func() bool {
			guest, err := r.Arrive("ann", Write)
			if err == nil {
				r.Leave(guest, nil)
			}
			return err == nil
		})
		bounded(r.T, given, 50, 20)
		if len(given) < 515 {
			r.Errorf("given only %d, want nearly 520", len(given))
		}
	})
}

// hammer calls take from 64 goroutines for a while, and returns when it returned true.
func hammer(t *testing.T, length time.Duration, take func() bool) (given []time.Time) {
	t.Helper()
	var mu sync.Mutex
	var all sync.WaitGroup
	end := time.Now().Add(length)
	for i := range 64 {
		all.Go(func() {
			for time.Now().Before(end) {
				if take() {
					mu.Lock()
					given = append(given, time.Now())
					mu.Unlock()
				}
				time.Sleep(time.Duration(50+i) * time.Millisecond)
			}
		})
	}
	all.Wait()
	return given
}

// bounded checks that no window of w seconds has more than burst + perSecond*w: that a bucket which leaks so fast never
// overflows.
func bounded(t *testing.T, given []time.Time, perSecond, burst float64) {
	t.Helper()
	level := 0.0
	for i, now := range given {
		if i > 0 {
			level = max(0, level-perSecond*now.Sub(given[i-1]).Seconds())
		}
		if level++; level > burst+rounding {
			t.Fatalf("request %d exceeds the limit by %.2f", i, level-burst)
		}
	}
}
