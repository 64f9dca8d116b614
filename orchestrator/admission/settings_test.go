package admission

import (
	"slices"
	"testing"
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
