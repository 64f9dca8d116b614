package admission

import (
	"context"
	"slices"
	"testing"

	"rideshare/internal/dbaas"
	"rideshare/internal/mq"
)

// hold makes an operator hold breakers, given by name.
func (r *rig) hold(breakers object) {
	r.Helper()
	if err := r.use(object{"breakers": breakers}, "test"); err != nil {
		r.Fatal(err)
	}
}

// Events tell the state in which requests meet a breaker: the one in which an operator holds it, and after that its own.
func TestGate_HeldBreaker_Events(t *testing.T) {
	const byHand = ", an operator holds it"
	for name, c := range map[string]struct {
		breaker, held string
		fault         func(*rig) // while the breaker is held
		holding, then []string   // events
	}{
		"open":         {"master", "open", func(*rig) {}, []string{"master closed open" + byHand}, []string{"master open closed, no operator holds it any more"}},
		"closed":       {"master", "closed", func(r *rig) { r.lose(master, true) }, nil, []string{"master closed open, no master for 2 s"}},
		"depth open":   {"depth", "open", func(*rig) {}, []string{"depth closed open" + byHand}, []string{"depth open closed, no operator holds it any more"}},
		"depth closed": {"depth", "closed", func(r *rig) { r.setReady(10001) }, nil, []string{"depth closed open, the write queue is too long"}},
		"event open":   {"event", "open", func(*rig) {}, []string{"event closed open" + byHand}, []string{"event open closed, no operator holds it any more"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			play(t, func(cfg *Config) {
				cfg.Event = func(kind string, c Change) {
					if kind == EventBreaker {
						got = append(got, c.Name+" "+c.From+" "+c.To+", "+c.Why)
					}
				}
			}, func(r *rig) {
				r.until(.15)
				r.hold(object{c.breaker: c.held})
				c.fault(r)
				r.until(3.15)
				if !slices.Equal(got, c.holding) {
					r.Errorf("while it is held: got events %q, want %q", got, c.holding)
				}
				got = nil
				r.hold(nil)
				r.until(3.3)
				if !slices.Equal(got, c.then) {
					r.Errorf("afterwards: got events %q, want %q", got, c.then)
				}
			})
		})
	}
}

// A breaker of the depth that is held closed does not open; writes still wait while the queue is too deep.
func TestGate_HeldDepth_Waits(t *testing.T) {
	for _, ready := range []int{5001, 10001} {
		play(t, nil, func(r *rig) {
			r.hold(object{"depth": "closed"})
			r.setReady(ready)
			r.until(.33)
			began := r.seconds()
			r.want("a write", r.write(nil), dbaas.ReasonDepthWait)
			r.near("the end", began+1.5)
			r.setReady(5000)
			r.until(2.33)
			r.want("a write after that", r.write(nil), "")
			r.near("admitted", 2.33)
		})
	}
}

// While the depth is not known, an operator lets writes pass by holding its breaker closed.
func TestGate_HeldDepth_NotKnown(t *testing.T) {
	play(t, func(cfg *Config) {
		cfg.Ready = func(context.Context) (int, error) { return 0, mq.ErrUnavailable }
	}, func(r *rig) {
		r.until(1.53)
		r.want("a write", r.write(nil), dbaas.ReasonDepthWait)
		r.hold(object{"depth": "closed"})
		began := r.seconds()
		r.want("a write while the breaker is held", r.write(nil), "")
		r.near("admitted", began)
	})
}
