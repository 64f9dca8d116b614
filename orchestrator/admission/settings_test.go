package admission

import (
	"slices"
	"testing"
	"time"
)

// The event of a changed setting has numbers and texts as people write them.
func TestGate_SettingChanged_IsTold(t *testing.T) {
	play(t, nil, func(r *rig) {
		for _, patched := range []object{{"inflight": 2_000_000.0}, {"inflight": 2_000_000.0, "lanes": object{"read": "adaptive"}}} {
			if err := r.use(patched, "a test"); err != nil {
				r.Fatal(err)
			}
		}
		want := []Change{{"inflight", "4096", "2000000", "a test"}, {"lanes.read", "1024", "adaptive", "a test"}}
		if !slices.Equal(r.changes, want) {
			r.Errorf("got %v, want %v", r.changes, want)
		}
	})
}

// Another preset closes an open event-count breaker, with an event.
func TestGate_PresetChanged_ClosesTheBreaker(t *testing.T) {
	play(t, func(c *Config) { c.Settings.EventBreaker.Preset = "10000-5s" }, func(r *rig) {
		r.Gate.mu.Lock()
		for range 10001 {
			r.count(1, time.Now())
		}
		r.Gate.mu.Unlock()
		if err := r.use(object{"event_breaker": object{"preset": None}}, "a test"); err != nil {
			r.Fatal(err)
		}
		want := []Change{
			{"event", "closed", "open", "too many operations within an interval"},
			{"event", "open", "closed", "the preset changed"},
			{"event_breaker.preset", "10000-5s", None, "a test"},
		}
		if !slices.Equal(r.changes, want) {
			r.Errorf("got %v, want %v", r.changes, want)
		}
	})
}
