package docker_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"rideshare/orchestrator/launch"
	"rideshare/orchestrator/launch/docker"
)

// A container that was created and is about to be started must not be removed. A container that was not started in time,
// because its launcher was killed, is listed as dead, and so gets removed.
func TestList_MadeButNotStarted(t *testing.T) {
	bubble(t, func(s scene) {
		t, f, l := s.T, s.engine, s.launcher
		f.set(func() { f.lose["create"] = 1 })
		if _, err := l.Start(t.Context(), "s1"); err == nil {
			t.Fatal("got no error, want the lost answer")
		}
		if list, err := l.List(t.Context()); err != nil || len(list) != 0 {
			t.Errorf("young: got %+v and error %v, want none listed", list, err)
		}
		time.Sleep(docker.AbandonedAfter) // of the bubble's own clock
		list, err := l.List(t.Context())
		if err != nil || len(list) != 1 || list[0].Running || list[0].PID != 0 {
			t.Fatalf("abandoned: got %+v and error %v, want it listed as dead", list, err)
		}
		if err := l.Remove(t.Context(), list[0].ID); err != nil || len(f.containers) != 0 {
			t.Errorf("remove: got %v and %d containers, want nil and none", err, len(f.containers))
		}
	})
}

// A container that the engine does not answer for hides no other one: it is listed as the engine's list shows it, with the
// pid and the start that were known before. Of a container that is about to be started nothing is asked.
func TestList_EngineSilentAboutOne_ListsAll(t *testing.T) {
	bubble(t, func(s scene) {
		t, f, l := s.T, s.engine, s.launcher
		want := []launch.Instance{mustStart(t, l, "s1"), mustStart(t, l, "s2")}
		list := func() []launch.Instance {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			began := time.Now()
			all, err := l.List(ctx)
			if err != nil || time.Since(began) > 600*time.Millisecond {
				t.Fatalf("got error %v after %v, want a list soon", err, time.Since(began))
			}
			slices.SortFunc(all, func(a, b launch.Instance) int { return strings.Compare(a.StartID, b.StartID) })
			return all
		}
		if got := list(); !slices.Equal(got, want) {
			t.Fatalf("got %+v, want %+v", got, want)
		}
		var stuck *docker.Container
		for _, c := range f.containers {
			if strings.HasPrefix(c.ID, string(want[0].ID)) {
				stuck = c
			}
		}
		f.set(func() { f.stuck[stuck.ID] = true })
		if got := list(); !slices.Equal(got, want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
		f.set(func() { stuck.Status = "exited" })
		if got := list(); len(got) != 2 || got[0].Running || got[1] != want[1] {
			t.Errorf("got %+v, want the first one dead", got)
		}
		f.set(func() { stuck.Status, stuck.CreatedAt = "created", time.Now() })
		began := time.Now()
		if got := list(); !slices.Equal(got, want[1:]) || time.Since(began) > 0 {
			t.Errorf("about to be started: got %+v after %v, want only the other one, without waiting", got, time.Since(began))
		}
	})
}

// A new launcher lists a running worker for which the engine has never answered, without its pid.
func TestList_EngineSilentAboutOneFromTheStart_ListsItWithoutPID(t *testing.T) {
	bubble(t, func(s scene) {
		t, f := s.T, s.engine
		want := mustStart(t, s.launcher, "s1")
		want.PID, want.StartedAt = 0, time.Time{}
		id := f.only().ID
		f.set(func() { f.stuck[id] = true })
		l, err := docker.New(fakeConfig(f))
		if err != nil {
			t.Fatal(err)
		}
		if list, err := l.List(t.Context()); err != nil || !slices.Equal(list, []launch.Instance{want}) {
			t.Errorf("got %+v and error %v, want %+v", list, err, want)
		}
		if err := l.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
