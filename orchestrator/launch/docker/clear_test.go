package docker_test

import (
	"context"
	"errors"
	"testing"

	"rideshare/orchestrator/launch"
	"rideshare/orchestrator/launch/docker"
)

// Clear leaves no worker of the stack, whatever its state, and touches no other container.
func TestClear_RemovesAllOfTheStack(t *testing.T) {
	bubble(t, func(s scene) {
		t, f, l := s.T, s.engine, s.launcher
		for _, id := range []string{"runs", "paused", "ended"} {
			mustStart(t, l, id)
		}
		f.set(func() { f.lose["create"] = 1 })
		if _, err := l.Start(t.Context(), "created"); !errors.Is(err, launch.ErrUnavailable) {
			t.Fatalf("got %v, want %v", err, launch.ErrUnavailable)
		}
		other := &docker.Container{ID: "otherotherother", Name: "other", Labels: map[string]string{"rideshare.stack": "other"}, Status: "running"}
		f.set(func() {
			for _, c := range f.containers {
				switch c.Labels["rideshare.start"] {
				case "paused":
					c.Status = "paused"
				case "ended":
					c.Status, c.PID = "exited", 0
				}
			}
			f.containers[other.ID] = other
			f.fail["signal"] = errLost
		})
		if err := l.Clear(t.Context()); !errors.Is(err, launch.ErrUnavailable) || len(f.containers) != 5 {
			t.Errorf("the engine kills none: got %v and %d containers, want %v and all 5", err, len(f.containers), launch.ErrUnavailable)
		}
		f.set(func() { f.fail["signal"] = nil })
		if err := l.Clear(t.Context()); err != nil {
			t.Errorf("got %v, want nil", err)
		}
		if left := f.only(); left != other || left.Status != "running" {
			t.Errorf("left: got %+v, want only the one of another stack, running", left)
		}
		f.set(func() { f.fail["list"] = errLost })
		if err := l.Clear(t.Context()); !errors.Is(err, launch.ErrUnavailable) {
			t.Errorf("the engine is away: got %v, want %v", err, launch.ErrUnavailable)
		}
	})
}

// A container that was created and never started is removed together with those that run.
func TestClear_OnARealEngine(t *testing.T) {
	t.Parallel()
	b := engine(t)
	c := b.config(t)
	l := b.launcher(t, c)
	mustStart(t, l, "runs")
	made := c
	made.Engine = neverStarts{c.Engine}
	if _, err := b.launcher(t, made).Start(t.Context(), "created"); !errors.Is(err, launch.ErrUnavailable) {
		t.Fatalf("got %v, want %v", err, launch.ErrUnavailable)
	}
	if n := len(b.containers(t, c.Stack)); n != 2 {
		t.Fatalf("got %d containers, want 2", n)
	}
	if err := l.Clear(t.Context()); err != nil {
		t.Error(err)
	}
	if left := b.containers(t, c.Stack); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

// neverStarts is an engine that starts no container.
type neverStarts struct{ docker.Engine }

// Start implements docker.Engine.
func (neverStarts) Start(context.Context, string) error { return errLost }
