package writer_test

import (
	"testing"
	"testing/synctest"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/testkit/archivetest"
	"rideshare/internal/testkit/storetest"
	"rideshare/persdb/archive/place"
	"rideshare/persdb/archive/writer"
	"rideshare/persdb/commitlog"
)

// start runs an Archiver of s on p, in a bubble.
func start(t *testing.T, s *source, p place.Place) *writer.Archiver {
	t.Helper()
	a, err := writer.Start(t.Context(), s.Store, config(s, p))
	if err != nil {
		t.Fatal(err)
	}
	synctest.Wait() // the first snapshot is made, unless the place hangs.
	return a
}

// within waits until the condition holds, and fails the test if it does not within d of the bubble's time.
func within(t *testing.T, d time.Duration, what string, holds func() bool) {
	t.Helper()
	for began := time.Now(); !holds(); time.Sleep(50 * time.Millisecond) {
		if time.Since(began) > d {
			t.Fatalf("still not after %v: %s", d, what)
		}
	}
}

// Whatever the archive does, each commit succeeds without waiting for it. The archive has all soon after it behaves again,
// and an entry is there a second after its commit as long as it does.
func TestArchiver_PlaceMisbehaves(t *testing.T) {
	for name, bad := range map[string]archivetest.Behaviour{
		"well": {}, "away": {Away: true}, "slow": {Slow: 700 * time.Millisecond}, "hangs": {Hangs: true}, "cut": {Cut: 100},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newSource(t, commitlog.Archive{Backlog: 1 << 30})
				p := &archivetest.Unruly{Place: place.Folder(t.TempDir())}
				a := start(t, s, p)
				lag := func() time.Duration {
					s.insert(t, 1)
					began := time.Now()
					within(t, 10*time.Minute, "all is archived", func() bool { return s.ArchiveState().Backlog == 0 })
					return time.Since(began)
				}
				if got := lag(); got > 1200*time.Millisecond {
					t.Errorf("got %v until an entry was archived, want about a second", got)
				}
				p.Set(bad)
				for range 6 {
					began := time.Now()
					s.insert(t, 1)
					if took := time.Since(began); took != 0 {
						t.Errorf("a commit waited %v for the archive", took)
					}
					time.Sleep(900 * time.Millisecond)
				}
				p.Set(archivetest.Behaviour{})
				lag()
				if got := lag(); got > 1200*time.Millisecond {
					t.Errorf("got %v until an entry was archived again, want about a second", got)
				}
				s.insert(t, 1)
				a.Close() // stores the last entry
				verify(t, s, p, to(0, 10))
			})
		})
	}
}

// A segment ends as soon as it has its size, however long Every is.
func TestArchiver_SizeReachedBeforeEvery(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const size = 2000
		s := newSource(t, commitlog.Archive{Backlog: 1 << 30})
		cfg := config(s, place.Folder(t.TempDir()))
		cfg.Every = time.Hour
		a, err := writer.Start(t.Context(), s.Store, writer.Sized(cfg, size))
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		s.insert(t, 1)
		synctest.Wait() // it waits for more.
		for s.ArchiveState().Backlog < size {
			s.insert(t, 1)
		}
		within(t, time.Second, "a segment is stored", func() bool { return s.ArchiveState().Backlog < size })
	})
}

// The second that an entry waits counts from its commit, also if an upload was going on then: a call to check the writer, and
// one to store the segment.
func TestArchiver_CommittedDuringAnUpload(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSource(t, commitlog.Archive{Backlog: 1 << 30})
		p := &archivetest.Unruly{Place: place.Folder(t.TempDir())}
		a := start(t, s, p)
		defer a.Close()
		p.Set(archivetest.Behaviour{Slow: 350 * time.Millisecond})
		s.insert(t, 1)
		time.Sleep(1100 * time.Millisecond) // of the bubble; the upload goes on from 1000 to 1700 ms.
		s.insert(t, 1)
		within(t, 1800*time.Millisecond, "all is archived", func() bool { return s.ArchiveState().Backlog == 0 })
	})
}

// With stop, writes are refused once the log has no room for more, and taken again when the archive is back: nothing is
// lost.
func TestArchiver_WhenFull_Stop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSource(t, commitlog.Archive{Backlog: 1000, Stop: true})
		p := &archivetest.Unruly{Place: place.Folder(t.TempDir())}
		a := start(t, s, p)
		defer a.Close()
		s.insert(t, 1)
		within(t, time.Minute, "all is archived", func() bool { return s.ArchiveState().Backlog == 0 })
		p.Set(archivetest.Behaviour{Away: true})
		for s.ArchiveState().Backlog <= 1000 {
			s.insert(t, 1)
		}
		head := s.ArchiveState().Head
		refused := storetest.Op(999, "INSERT INTO t(b) VALUES('refused')")
		refused.SeenSeq = head
		commit := func() dbaas.Code {
			_, err := s.Commit(t.Context(), dbaas.Leadership{Epoch: s.epoch}, []dbaas.Operation{refused})
			return dbaas.CodeOf(err)
		}
		if got := commit(); got != dbaas.CodeFull || s.ArchiveState().Head != head {
			t.Errorf("got %q at %d, want CodeFull at %d", got, s.ArchiveState().Head, head)
		}
		p.Set(archivetest.Behaviour{})
		within(t, time.Minute, "writes are taken", func() bool { return !s.ArchiveState().Refusing })
		s.insert(t, 1)
		within(t, time.Minute, "all is archived", func() bool { return s.ArchiveState().Backlog == 0 })
		verify(t, s, p, to(0, head+1))
	})
}

// With gap, writes are taken all the time. What was trimmed cannot be restored, and a snapshot ends the gap.
func TestArchiver_WhenFull_Gap(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSource(t, commitlog.Archive{Backlog: 1000})
		p := &archivetest.Unruly{Place: place.Folder(t.TempDir())}
		a := start(t, s, p)
		defer a.Close()
		s.insert(t, 2)
		within(t, time.Minute, "all is archived", func() bool { return s.ArchiveState().Backlog == 0 })
		p.Set(archivetest.Behaviour{Away: true})
		for s.ArchiveState().Backlog <= 2000 {
			s.insert(t, 1)
		}
		head := s.ArchiveState().Head
		s.advance(90 * time.Minute)
		if _, err := s.Trim(t.Context()); err != nil || s.ArchiveState().Trimmed <= 2 || s.ArchiveState().Backlog > 1000 {
			t.Fatalf("got %v, %+v, want what is over the bound trimmed", err, s.ArchiveState())
		}
		p.Set(archivetest.Behaviour{})
		s.insert(t, 1)
		within(t, 5*time.Minute, "the gap has ended", func() bool { return len(catalog(t, s, p).Ranges()) == 2 })
		within(t, time.Minute, "all is archived", func() bool { return s.ArchiveState().Backlog == 0 })
		ranges := catalog(t, s, p).Ranges()
		if ranges[0] != to(0, 2) || ranges[1].Last != head+1 {
			t.Errorf("got %v, want 0 to 2 and up to %d", ranges, head+1)
		}
		verify(t, s, p, ranges...)
	})
}

// Nothing is trimmed while the archive has not said what it has. If it then has another history, writes are refused.
func TestArchiver_AwayAtStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &archivetest.Unruly{Place: place.Folder(t.TempDir())}
		s := newSource(t, commitlog.Archive{Backlog: 1 << 30})
		s.insert(t, 3)
		old := copyOf(t, s, t.TempDir())
		s.insert(t, 2)
		work(t, writer.New(s.Store, config(s, p)))
		p.Set(archivetest.Behaviour{Hangs: true})
		a := start(t, old, p)
		defer a.Close()
		old.insert(t, 1)
		old.advance(2 * time.Hour)
		old.trim(t, 0)
		p.Set(archivetest.Behaviour{})
		within(t, 5*time.Minute, "archiving stops", func() bool { return a.Stats().Stopped })
		o := storetest.Op(999, "DELETE FROM t")
		_, err := old.Commit(t.Context(), dbaas.Leadership{Epoch: old.epoch}, []dbaas.Operation{o})
		if dbaas.CodeOf(err) != dbaas.CodeUnavailable || old.ArchiveState().Head != 4 {
			t.Errorf("got %v, want CodeUnavailable", err)
		}
		old.trim(t, 0)
		verify(t, s, p, to(5, 5))
	})
}

// A start waits 5 s for a place whose calls do not end with their contexts, and archives when they have ended. A close in
// the meantime waits 2 s.
func TestArchiver_StuckAtStart(t *testing.T) {
	for name, closed := range map[string]bool{"back": false, "closed": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newSource(t, commitlog.Archive{Backlog: 1 << 30})
				p, stuck := &archivetest.Unruly{Place: place.Folder(t.TempDir())}, make(chan struct{})
				p.Set(archivetest.Behaviour{Stuck: stuck})
				began := time.Now()
				a := start(t, s, p)
				if took := time.Since(began); took != 5*time.Second {
					t.Errorf("the start took %v, want 5s", took)
				}
				s.insert(t, 1)
				if closed {
					closeTakes(t, a, 2*time.Second)
				}
				close(stuck)
				if closed {
					synctest.Wait() // the calls that were left behind have ended, and do nothing more.
					verify(t, s, p)
					return
				}
				within(t, time.Minute, "all is archived", func() bool { return s.ArchiveState().Backlog == 0 })
				synctest.Wait() // the first snapshot is made.
				a.Close()
				verify(t, s, p, to(1, 1))
			})
		})
	}
}

// An archive that has another history, but could not say so at the start, is noticed when its calls end.
func TestArchiver_StuckAtStart_TwoHistories(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSource(t, commitlog.Archive{Backlog: 1 << 30})
		s.insert(t, 3)
		old := copyOf(t, s, t.TempDir())
		s.insert(t, 2)
		p, stuck := &archivetest.Unruly{Place: place.Folder(t.TempDir())}, make(chan struct{})
		work(t, writer.New(s.Store, config(s, p)))
		p.Set(archivetest.Behaviour{Stuck: stuck})
		a := start(t, old, p)
		defer a.Close()
		close(stuck)
		within(t, time.Minute, "archiving stops", func() bool { return a.Stats().Stopped })
		verify(t, s, p, to(5, 5))
	})
}

// A close waits 2 s for the last entry, also if the call of the place does not end with its context.
func TestArchiver_StuckAtClose(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSource(t, commitlog.Archive{Backlog: 1 << 30})
		p, stuck := &archivetest.Unruly{Place: place.Folder(t.TempDir())}, make(chan struct{})
		a := start(t, s, p)
		s.insert(t, 1)
		within(t, time.Minute, "all is archived", func() bool { return s.ArchiveState().Backlog == 0 })
		synctest.Wait()
		p.Set(archivetest.Behaviour{Stuck: stuck})
		s.insert(t, 1)
		closeTakes(t, a, 2*time.Second)
		close(stuck)
		synctest.Wait() // the call that was left behind has ended.
		verify(t, s, p, to(0, 1))
	})
}

// closeTakes closes an Archiver and fails the test if that does not take as long as want.
func closeTakes(t *testing.T, a *writer.Archiver, want time.Duration) {
	t.Helper()
	began := time.Now()
	a.Close()
	if took := time.Since(began); took != want {
		t.Errorf("Close took %v, want %v", took, want)
	}
}
