package docker_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"rideshare/internal/wait"
	"rideshare/orchestrator/launch"
	"rideshare/orchestrator/launch/docker"
)

// slowEngine needs time for a start, and ends it when the caller gives up.
type slowEngine struct {
	*fakeEngine

	needs time.Duration
}

// Start implements docker.Engine.
func (e slowEngine) Start(ctx context.Context, id string) error {
	if !wait.For(ctx, e.needs) {
		return ctx.Err()
	}
	return e.fakeEngine.Start(ctx, id)
}

// A start whose caller gives up ends well all the same, so that a system that stops then sees the worker. But nobody waits
// long for an engine that is stuck.
func TestStart_CallerGivesUp(t *testing.T) {
	for needs, works := range map[time.Duration]bool{900 * time.Millisecond: true, time.Minute: false} {
		synctest.Test(t, func(t *testing.T) {
			cfg := fakeConfig(nil)
			cfg.Engine = slowEngine{newFake(), needs}
			l, err := docker.New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			began := time.Now()
			i, err := l.Start(ctx, "s1")
			if took := time.Since(began); i.Running != works || errors.Is(err, launch.ErrUnavailable) == works || took > 1100*time.Millisecond {
				t.Errorf("start of %v: got %+v and error %v after %v, want it running: %t", needs, i, err, took, works)
			}
			if list, err := l.List(t.Context()); err != nil || len(list) == 1 != works {
				t.Errorf("start of %v: got %+v and error %v listed, want the worker: %t", needs, list, err, works)
			}
			if err := l.Close(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// A start that is asked for too late does not happen.
func TestStart_ContextEnded(t *testing.T) {
	bubble(t, func(s scene) {
		t, f, l := s.T, s.engine, s.launcher
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := l.Start(ctx, "s1"); !errors.Is(err, launch.ErrUnavailable) || !errors.Is(err, context.Canceled) || f.count("create") != 0 {
			t.Errorf("got %v and %d containers created, want %v and none", err, f.count("create"), launch.ErrUnavailable)
		}
	})
}
