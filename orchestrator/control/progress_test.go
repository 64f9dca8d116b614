package control_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// Workers that take ten minutes to fetch a database, all of them after a full restart, are not killed while they do.
func TestLoop_LongSnapshots_LeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newRig(t)
		s.loads = 10 * time.Minute
		_, stop := s.orchestrate(2)
		defer s.end()
		defer stop()
		s.reconcile()
		p := s.first()
		pass(11 * time.Minute)
		s.want(fmt.Sprintf("%d master 1", p), fmt.Sprintf("%d slave 0", p+1), fmt.Sprintf("%d slave 0", p+2))
	})
}

// A worker that stops making progress before it serves is replaced a minute later.
func TestLoop_StuckSnapshot_Replaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newRig(t)
		s.loads, s.stuckAt = 10*time.Minute, 40*time.Second
		_, stop := s.orchestrate(0)
		defer s.end()
		defer stop()
		s.reconcile()
		p := s.first()
		pass(80 * time.Second)
		if got := s.first(); got != p {
			t.Fatalf("replaced within 90 s by %d, with progress 50 s ago", got)
		}
		pass(30 * time.Second)
		if got := s.first(); got == p {
			t.Fatal("not replaced, with progress 80 s ago")
		}
	})
}
