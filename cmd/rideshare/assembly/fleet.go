package assembly

import (
	"context"
	"fmt"
	"sync"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/workerapi"
)

// statusTimeout bounds the question to one worker how it is.
const statusTimeout = time.Second

// Kill ends a worker at once, as its engine does it. Nobody tells the control loop, which has to notice. Errors are those of launch.Launcher.
func (s *System) Kill(ctx context.Context, id dbaas.WorkerID) error {
	return s.core.launcher.Kill(ctx, id)
}

// statuses asks every worker that runs and has a role how it is. Those that do
// not answer are named in missing.
func (c *core) statuses(ctx context.Context) (out []workerapi.Status, missing []string) {
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
