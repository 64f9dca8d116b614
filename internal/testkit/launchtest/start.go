package launchtest

import (
	"cmp"
	"slices"
	"sync"

	"rideshare/internal/dbaas"
	"rideshare/orchestrator/launch"
)

// A started worker runs, has all that identifies it, and is listed as it was returned.
func testStart(s *suite) {
	i := s.start("s1")
	if i.ID == "" || i.StartID != "s1" || i.PID <= 0 || i.Control == "" || !i.Running || i.StartedAt.IsZero() {
		s.Errorf("start: got %+v, want all of a running worker", i)
	}
	got := s.find(i.ID)
	if got.StartID != "s1" || got.PID != i.PID || got.Control != i.Control || !got.Running {
		s.Errorf("list: got %+v, want %+v", got, i)
	}
	other := s.start("s2")
	if other.ID == i.ID || other.PID == i.PID || other.Control == i.Control {
		s.Errorf("two workers share what must be their own: %+v and %+v", i, other)
	}
}

// The same start again gives the same worker and makes no other.
func testStartTwice(s *suite) {
	first, second := s.start("s1"), s.start("s1")
	if first.ID != second.ID {
		s.Errorf("same start: got workers %s and %s, want one", first.ID, second.ID)
	}
	if n := len(s.list()); n != 1 {
		s.Errorf("got %d workers, want 1", n)
	}
}

// Concurrent starts with the same id give the same worker, too.
func testStartTogether(s *suite) {
	const callers = 4
	ids := make([]dbaas.WorkerID, callers)
	var all sync.WaitGroup
	for n := range callers {
		all.Go(func() {
			i, err := s.world.Start(s.Context(), "s1")
			if err != nil {
				s.Errorf("start: got %v, want a worker", err)
			}
			ids[n] = i.ID
		})
	}
	all.Wait()
	if len(slices.Compact(ids)) != 1 || len(s.list()) != 1 {
		s.Errorf("same start at the same time: got workers %v and %d listed, want one", ids, len(s.list()))
	}
}

// A start whose answer was lost is found in the list, and the same start again returns that worker.
func testLostAnswer(s *suite) {
	lossy := NewLossy(s.world)
	lossy.LoseAnswers(1)
	_, err := lossy.Start(s.Context(), "s1")
	s.WantError("start with a lost answer", err, launch.ErrUnavailable)
	list := s.list()
	if len(list) != 1 || list[0].StartID != "s1" || !list[0].Running {
		s.Fatalf("after a lost answer: got %+v listed, want one running worker of that start", list)
	}
	again, err := lossy.Start(s.Context(), "s1")
	if err != nil || again.ID != list[0].ID {
		s.Errorf("same start again: got %s and error %v, want %s", again.ID, err, list[0].ID)
	}
}

// A start whose request was lost leaves nothing, and the same start again works.
func testLostRequest(s *suite) {
	lossy := NewLossy(s.world)
	lossy.LoseRequests(1)
	_, err := lossy.Start(s.Context(), "s1")
	s.WantError("start with a lost request", err, launch.ErrUnavailable)
	if list := s.list(); len(list) != 0 {
		s.Fatalf("after a lost request: got %+v listed, want none", list)
	}
	if _, err = lossy.Start(s.Context(), "s1"); err != nil {
		s.Errorf("same start again: got %v, want a worker", err)
	}
}

// A start whose worker has died returns the dead worker: a worker has one life.
func testStartDead(s *suite) {
	i := s.start("s1")
	s.kill(i.ID)
	again := s.start("s1")
	if again.ID != i.ID || again.Running {
		s.Errorf("same start after death: got %+v, want %s, dead", again, i.ID)
	}
	s.remove(i.ID)
	if next := s.start("s1"); next.ID == i.ID || !next.Running {
		s.Errorf("same start after removal: got %+v, want another worker than %s", next, i.ID)
	}
}

// Workers are listed in the order of their starts, dead ones too.
func testList(s *suite) {
	first, second, third := s.start("z"), s.start("a"), s.start("m")
	s.kill(second.ID)
	list := s.list()
	// The order is written out: launch.Order is what is tested.
	sorted := slices.IsSortedFunc(list, func(a, b launch.Instance) int {
		return cmp.Or(a.StartedAt.Compare(b.StartedAt), cmp.Compare(a.ID, b.ID))
	})
	if len(list) != 3 || !sorted {
		s.Errorf("got %+v, want %s, %s and %s by start time, then id", list, first.ID, second.ID, third.ID)
	}
}
