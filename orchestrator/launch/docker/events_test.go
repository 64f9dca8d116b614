package docker_test

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rideshare/orchestrator/launch"
	"rideshare/orchestrator/launch/docker"
)

// After each loss of the event stream the launcher listens again and sends a token, since events may have been missed.
func TestEvents_StreamBroken_ListensAgainAndWakes(t *testing.T) {
	bubble(t, func(s scene) {
		t, f, l := s.T, s.engine, s.launcher
		synctest.Wait()
		<-l.Events() // listening
		end := <-f.watches
		f.set(func() { f.fail["watch"] = errLost })
		end <- errLost
		time.Sleep(10 * time.Second) // the engine is away
		if len(l.Events()) != 0 {
			t.Error("a token came while the engine is away")
		}
		if n := f.count("watch"); n > 20 {
			t.Errorf("got %d tries in 10 s, want pauses between them", n)
		}
		f.set(func() { f.fail["watch"] = nil })
		time.Sleep(2 * time.Second)
		select {
		case <-l.Events():
		default:
			t.Error("no token after the engine was found again")
		}
		f.set(func() { f.changed(docker.Change{ID: "x"}) })
		if len(l.Events()) != 1 {
			t.Error("no token for a change after that")
		}
	})
}

// A death that the engine reports in an event is believed immediately, while the engine itself still lists the container
// as running. This holds until the engine reports a start, or was lost: then the engine is asked again.
func TestEvents_DeathTold_IsListedAtOnce(t *testing.T) {
	bubble(t, func(s scene) {
		t, f, l := s.T, s.engine, s.launcher
		synctest.Wait()
		i := mustStart(t, l, "s1")
		mustStart(t, l, "s2")
		id := ""
		for _, c := range f.containers {
			if strings.HasPrefix(c.ID, string(i.ID)) {
				id = c.ID
			}
		}
		for _, step := range []struct {
			change  docker.Change
			running bool
		}{
			{docker.Change{ID: id}, true},
			{docker.Change{ID: id, Died: true, ExitCode: 137}, false},
			{docker.Change{ID: "other"}, false},
			{docker.Change{ID: id, Started: true}, true},
			{docker.Change{ID: id, Died: true, ExitCode: 137}, false},
			{docker.Change{}, true},
		} {
			f.changed(step.change)
			list, err := l.List(t.Context())
			if err != nil || len(list) != 2 {
				t.Fatalf("got %+v and error %v, want two workers", list, err)
			}
			n := slices.IndexFunc(list, func(w launch.Instance) bool { return w.ID == i.ID })
			want := i
			if !step.running {
				want.Running, want.PID, want.ExitCode, want.StartedAt = false, 0, 137, list[n].StartedAt
			}
			if n < 0 || list[n] != want || !list[1-n].Running {
				t.Errorf("after %+v: got %+v, want %+v and the other one running", step.change, list, want)
			}
		}
	})
}

// logging returns a launcher that logs to log.
func logging(t *testing.T, f *fakeEngine, log *logs) *docker.Launcher {
	t.Helper()
	c := fakeConfig(f)
	c.Log = slog.New(slog.NewJSONHandler(log, nil))
	l, err := docker.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// The last output of a worker that died unasked is logged before it is removed; for a worker that was asked to end it is
// not logged.
func TestRemove_RecordsTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, log := newFake(), &logs{}
		l := logging(t, f, log)
		died, killed := mustStart(t, l, "died"), mustStart(t, l, "killed")
		for id, one := range f.containers {
			f.set(func() { f.tails[id] = "panic in " + one.Labels["rideshare.start"] })
			if one.Labels["rideshare.start"] == "died" {
				f.set(func() { one.Status, one.ExitCode, one.PID = "exited", 2, 0 })
			}
		}
		if err := l.Kill(t.Context(), killed.ID); err != nil {
			t.Fatal(err)
		}
		for _, i := range []launch.Instance{died, killed} {
			if err := l.Remove(t.Context(), i.ID); err != nil {
				t.Errorf("remove %s: %v", i.ID, err)
			}
		}
		if text := log.String(); !strings.Contains(text, `"reason":"panic in died of 20"`) || !strings.Contains(text, `"code":2`) || strings.Contains(text, "panic in killed") {
			t.Errorf("got log\n%s\nwant the words and the code of the container that died, and not of the other", text)
		}
		if err := l.Close(t.Context()); err != nil {
			t.Errorf("close: %v", err)
		}
	})
}

// However often the engine fails to remove a container, its end is logged once.
func TestRemove_EngineFails_RecordsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, log := newFake(), &logs{}
		l := logging(t, f, log)
		i := mustStart(t, l, "s1")
		one := f.only()
		f.set(func() { one.Status, one.ExitCode, one.PID, f.fail["remove"] = "exited", 2, 0, errLost })
		for range 3 {
			if _, err := l.List(t.Context()); err != nil {
				t.Errorf("list: %v", err)
			}
			if err := l.Remove(t.Context(), i.ID); !errors.Is(err, launch.ErrUnavailable) {
				t.Errorf("got %v, want %v", err, launch.ErrUnavailable)
			}
		}
		f.set(func() { f.fail["remove"] = nil })
		if err := l.Remove(t.Context(), i.ID); err != nil {
			t.Errorf("remove: %v", err)
		}
		if got := strings.Count(log.String(), "container died"); got != 1 {
			t.Errorf("got %d records, want one:\n%s", got, log.String())
		}
		if err := l.Close(t.Context()); err != nil {
			t.Errorf("close: %v", err)
		}
	})
}
