package admission

import (
	"fmt"
	"testing"
	"time"
)

var start = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// at returns the time so many seconds after start.
func at(seconds float64) time.Time {
	return start.Add(time.Duration(seconds*1e6+0.5) * time.Microsecond)
}

// events plays events of a weight and returns the state after each: open or closed, count, start.
type events struct {
	rule  EventRule
	state EventState
}

func (e *events) at(seconds float64, weight int) (admitted bool) {
	e.state, admitted = e.rule.Next(e.state, weight, at(seconds))
	return admitted
}

func (e *events) String() string {
	name := "C"
	if e.state.Open {
		name = "O"
	}
	return fmt.Sprintf("%s,%d,%g", name, e.state.Count, e.state.Start.Sub(start).Seconds())
}

var small = EventRule{Opens: 3, Closes: 2, Interval: 2 * time.Second}

// The event-count breaker does step by step what that of commons-lang3 does.
func TestEventRule_Steps(t *testing.T) {
	e := &events{rule: small}
	for _, step := range []struct {
		at   float64
		want string
	}{
		{0, "C,1,0"},
		{.5, "C,2,0"},
		{1, "C,3,0"},
		{2, "O,0,2"},
		{2.5, "O,1,2"},
		{3, "O,2,2"},
		{4, "O,3,2"},
		{4.1, "O,1,4.1"},
		{6.2, "C,0,6.2"},
		{6.3, "C,1,6.2"},
		{6.4, "C,2,6.2"},
		{6.5, "C,3,6.2"},
		{6.6, "O,0,6.6"},
	} {
		admitted := e.at(step.at, 1)
		if got := e.String(); got != step.want || admitted != (got[0] == 'C') {
			t.Errorf("at %g: got %s, admitted %t, want %s", step.at, got, admitted, step.want)
		}
	}
	// Without ticks the breaker does not notice a quiet time.
	for range 5 {
		if e.at(6.7, 1) {
			t.Error("an event at 6.7 was admitted")
		}
	}
	ticked := *e
	if e.at(100, 1) {
		t.Error("the event at 100 was admitted, after five events in the interval before")
	}
	if !e.at(102.1, 1) {
		t.Error("the event at 102.1 was refused, after one event in the interval before")
	}
	// With ticks it does.
	closed := 0.0
	for i := 68; i < 1000 && closed == 0; i++ {
		if ticked.at(float64(i)/10, 0) {
			closed = float64(i) / 10
		}
	}
	if closed != 10.8 || !ticked.at(100, 1) {
		t.Errorf("with ticks: closed at %g, %s at 100, want 10.8 and closed", closed, &ticked)
	}
}

// Each preset opens above its count, and closes after an interval below the other one.
func TestEventRule_Presets(t *testing.T) {
	for name, rule := range presets {
		interval := rule.Interval.Seconds()
		play := func(refused int) bool {
			e := &events{rule: rule}
			for i := range rule.Opens {
				if !e.at(0.9*interval*float64(i)/float64(rule.Opens), 1) {
					t.Fatalf("%s: event %d was refused", name, i+1)
				}
			}
			if e.at(0.95*interval, 1) {
				t.Errorf("%s: event %d was admitted", name, rule.Opens+1)
			}
			for range refused {
				if e.at(1.45*interval, 1) {
					t.Fatalf("%s: an event was admitted while open", name)
				}
			}
			return e.at(1.95*interval+0.001, 1)
		}
		if !play(rule.Closes-1) || play(rule.Closes) {
			t.Errorf("%s: want closed after %d refused events and open after %d", name, rule.Closes-1, rule.Closes)
		}
	}
}

// The mean of messages is that of the last hundred.
func TestMeans(t *testing.T) {
	var m means
	if got := m.mean(); got != 1 {
		t.Errorf("got %g before the first message, want 1", got)
	}
	m.add(10)
	m.add(20)
	if got := m.mean(); got != 15 {
		t.Errorf("got %g, want 15", got)
	}
	for range meanMessages {
		m.add(7)
	}
	if got := m.mean(); got != 7 {
		t.Errorf("got %g, want 7: the first messages no longer count", got)
	}
	if got := depthOf(100, 3, 5, 7); got != 114 {
		t.Errorf("got depth %d, want 114: 100 of its own, and 2 messages of others with 7 each", got)
	}
	if got := depthOf(100, 5, 3, 7); got != 100 {
		t.Errorf("got depth %d, want 100: all messages at the broker are its own", got)
	}
}

// Samples of the depth open the breaker, keep it open, and make it half-open.
func TestDepthRule_Samples(t *testing.T) {
	rule := DepthRule{Wait: 5000, Open: 10000}
	var b Breaker
	for _, step := range []struct {
		at    float64
		depth int
		want  State
		until float64
	}{
		{0, 10000, Closed, 0},
		{.1, 10001, Open, 2.1},
		{.2, 0, Open, 2.1},
		{2, 20000, Open, 2.1},
		{2.1, 10001, Open, 4.1},
		{4, 0, Open, 4.1},
		{4.1, 10000, HalfOpen, 0},
		{4.2, 10001, Open, 6.2},
	} {
		b = rule.Judge(b, Depth{Operations: step.depth}, at(step.at))
		if b.State != step.want || step.want == Open && !b.Until.Equal(at(step.until)) {
			t.Errorf("%d at %g: got %v until %v, want %v until %g", step.depth, step.at, b.State, b.Until, step.want, step.until)
		}
	}
}

// A failed sample keeps the last value for a second.
func TestDepthRule_FailedSamples(t *testing.T) {
	rule := DepthRule{Wait: 5000, Open: 10000}
	d := rule.Sampled(Depth{}, 42, true, at(0))
	for _, step := range []struct {
		at   float64
		want int
	}{{.1, 42}, {.9, 42}, {1, 5001}, {1.1, 5001}} {
		if d = rule.Sampled(d, 0, false, at(step.at)); d.Operations != step.want {
			t.Errorf("at %g: got %d, want %d", step.at, d.Operations, step.want)
		}
	}
	if d = rule.Sampled(d, 43, true, at(1.2)); d.Operations != 43 {
		t.Errorf("after a good sample: got %d, want 43", d.Operations)
	}
}

// probe lets one probe pass and end.
func probe(t *testing.T, b Breaker, outcome Outcome, now time.Time) Breaker {
	t.Helper()
	b, p, ok := b.Enter(now)
	if !ok {
		t.Fatalf("no probe was admitted by %+v", b)
	}
	return b.Left(p, outcome, now)
}

// A failed probe opens the breaker for twice the last time, at most 30 s. Closing resets that.
func TestBreaker_FailedProbes_OpenForLonger(t *testing.T) {
	rule := DepthRule{Wait: 5000, Open: 10000}
	b, now := rule.Judge(Breaker{}, Depth{Operations: 10001}, at(0)), 2.0
	b = rule.Judge(b, Depth{}, at(now))
	for range 4 {
		b = probe(t, b, Succeeded, at(now))
	}
	for _, want := range []float64{4, 8, 16, 30, 30} {
		b = probe(t, b, Failed, at(now))
		if b.State != Open || !b.Until.Equal(at(now+want)) {
			t.Fatalf("got %v until %v, want open for %g s", b.State, b.Until, want)
		}
		if _, _, ok := b.Enter(at(now)); ok {
			t.Error("an open breaker admitted a request")
		}
		now += want
		b = rule.Judge(b, Depth{}, at(now))
	}
	for i := range probes {
		if b.State != HalfOpen {
			t.Fatalf("got %v after %d good probes", b.State, i)
		}
		b = probe(t, b, Succeeded, at(now))
	}
	if b.State != Closed {
		t.Fatalf("got %v after five good probes", b.State)
	}
	b = rule.Judge(b, Depth{Operations: 10001}, at(now))
	b = probe(t, rule.Judge(b, Depth{}, at(now+2)), Failed, at(now+2))
	if !b.Until.Equal(at(now + 6)) {
		t.Errorf("got open until %v after it had closed, want for 4 s", b.Until)
	}
}

// At most five probes are on their way. One that says nothing gives its place back. One of an earlier time counts for nothing.
func TestBreaker_Probes(t *testing.T) {
	b := Breaker{}.open(firstOpen, at(0), "test").halfOpen()
	var passes []Pass
	for range probes {
		next, p, ok := b.Enter(at(0))
		if !ok {
			t.Fatal("a probe was refused")
		}
		b = next
		passes = append(passes, p)
	}
	if _, _, ok := b.Enter(at(0)); ok {
		t.Error("a sixth probe was admitted")
	}
	b = b.Left(passes[0], Inconclusive, at(0))
	b, again, ok := b.Enter(at(0))
	if !ok {
		t.Error("no probe was admitted after one had left")
	}
	b = b.Left(passes[1], Failed, at(0)).halfOpen()
	for _, p := range append(passes[2:], again) {
		if b = b.Left(p, Failed, at(0)); b.State != HalfOpen {
			t.Error("a probe of an earlier time opened the breaker")
		}
	}
	for range probes {
		if b, _, ok = b.Enter(at(0)); !ok {
			t.Error("an earlier probe has a place")
		}
	}
}

// A probe that takes long gives its place to another request, and its outcome still counts.
func TestBreaker_SlowProbes(t *testing.T) {
	b := Breaker{}.open(firstOpen, at(0), "test").halfOpen()
	var slow []Pass
	enter := func(seconds float64, want bool) (p Pass) {
		t.Helper()
		var ok bool
		if b, p, ok = b.Enter(at(seconds)); ok != want {
			t.Errorf("at %g: admitted %t, want %t", seconds, ok, want)
		}
		return p
	}
	for i := range probes {
		slow = append(slow, enter(float64(i)/10, true))
	}
	enter(1.9, false)
	second := enter(2, true)
	enter(2, false)
	b = b.Left(slow[0], Succeeded, at(2))
	enter(2, false)
	b = b.Left(second, Succeeded, at(2))
	enter(2, true)
	for _, p := range slow[1:3] {
		b = b.Left(p, Succeeded, at(2.05))
	}
	if failed := b.Left(slow[3], Failed, at(9)); failed.State != Open {
		t.Errorf("got %v after a slow probe has failed, want open", failed.State)
	}
	if b = b.Left(slow[3], Succeeded, at(9)); b.State != Closed {
		t.Errorf("got %v after five probes, want closed", b.State)
	}
}

// Half of at least 20 requests must fail within 2 s.
func TestDependency_HalfOfTheRequestsFail(t *testing.T) {
	for _, c := range []struct {
		ended, failed int
		want          State
	}{{19, 19, Closed}, {20, 9, Closed}, {20, 10, Open}} {
		var d Dependency
		for i := range c.ended {
			outcome := Succeeded
			if i >= c.ended-c.failed {
				outcome = Failed
			}
			d.Ended(Pass{}, outcome, at(1.9*float64(i)/20))
		}
		if d.State != c.want {
			t.Errorf("%d of %d failed: got %v, want %v", c.failed, c.ended, d.State, c.want)
		}
	}
	var d Dependency
	for i := range 20 {
		d.Ended(Pass{}, Failed, at(float64(i)*0.2))
	}
	if d.State != Closed {
		t.Errorf("20 failures within 4 s: got %v, want closed", d.State)
	}
}

// A dependency opens with its state and closes with it. After failures it is half-open 2 s later.
func TestDependency_Look(t *testing.T) {
	var d Dependency
	want := func(state State) {
		t.Helper()
		if d.State != state {
			t.Fatalf("got %v, want %v", d.State, state)
		}
	}
	d.Look("lost", at(0))
	want(Open)
	d.Look("lost", at(100))
	want(Open)
	d.Look("", at(101))
	want(Closed)
	for range 20 {
		d.Ended(Pass{}, Failed, at(102))
	}
	want(Open)
	d.Look("", at(103.9))
	want(Open)
	d.Look("", at(104))
	want(HalfOpen)
	d.Look("lost", at(104))
	want(Open)
	d.Look("", at(104.1))
	want(Closed)
}
