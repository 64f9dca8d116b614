package system

import (
	"context"
	"fmt"
	"sync"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/workerapi"
)

// statusTimeout bounds the status request to one worker.
const statusTimeout = time.Second

// Kill ends a worker immediately through the launcher. The control loop is not notified and has to notice by itself.
// Errors are those of launch.Launcher.
func (s *System) Kill(ctx context.Context, id dbaas.WorkerID) error {
	return s.parts.launcher.Kill(ctx, id)
}

// statuses reads the status of every running worker that has a role. missing names the workers that did not answer.
func (c *orchestratorParts) statuses(ctx context.Context) (out []workerapi.Status, missing []string) {
	instances, err := c.launcher.List(ctx)
	if err != nil {
		return nil, []string{"workers"}
	}
	var mu sync.Mutex // guards out and missing
	var group sync.WaitGroup
	for _, in := range instances {
		if !in.Running {
			continue
		}
		group.Go(func() {
			callCtx, cancel := context.WithTimeout(ctx, statusTimeout)
			defer cancel()
			s, err := c.workers.Status(callCtx, in.Control)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				missing = append(missing, fmt.Sprintf("worker %d", in.PID))
			case s.Role != dbaas.RoleNone && !s.Draining:
				out = append(out, s)
			}
		})
	}
	group.Wait()
	return out, missing
}
