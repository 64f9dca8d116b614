package inproc_test

import (
	"testing"
	"time"

	"rideshare/internal/coord"
	"rideshare/internal/coord/inproc"
	"rideshare/internal/testkit/coordtest"
)

// world drives an in-process coordinator for the conformance suite.
type world struct{ *inproc.Coordinator }

func (w world) Abandon(_ testing.TB, s coord.Session) { s.(*inproc.Session).Abandon() }
func (w world) Cut(_ testing.TB, s coord.Session)     { s.(*inproc.Session).Partition() }
func (w world) Heal(_ testing.TB, s coord.Session)    { s.(*inproc.Session).Heal() }
func (w world) Stop(testing.TB)                       { w.Coordinator.Stop() }
func (w world) Start(testing.TB)                      { w.Coordinator.Start() }
func (w world) Pause(testing.TB)                      { w.Coordinator.Pause() }
func (w world) Resume(testing.TB)                     { w.Coordinator.Resume() }

// newWorld returns a coordinator with sessions of that length.
func newWorld(timeout time.Duration) coordtest.NewWorld {
	return func(tb testing.TB) coordtest.World {
		tb.Helper()
		k, err := inproc.New(inproc.Config{SessionTimeout: timeout})
		if err != nil {
			tb.Fatal(err)
		}
		return world{k}
	}
}

// The in-process coordinator keeps every promise of coord.Session, and leaves no goroutine.
func TestConformance_Bubble(t *testing.T) {
	t.Parallel()
	coordtest.Run(t, coordtest.Features{Bubble: true}, newWorld(6*time.Second))
}
