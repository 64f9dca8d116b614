package control

import (
	"context"
	"time"
)

// progress is what the loop knows of a worker that is getting ready to serve.
type progress struct {
	figure uint64    // highest workerapi.Status.Progress so far
	at     time.Time // as Worker.ProgressAt
	asked  time.Time
	asking bool
}

// A worker that is not registered after Config.Ready / askAfter is asked for its progress every Config.Ready / askEvery.
const (
	askAfter = 4
	askEvery = 12
)

// askProgress asks the workers that take long to start serving for their progress, each in a goroutine of its own.
// A worker that does not answer counts as making no progress.
func (l *Loop) askProgress(ctx context.Context, o Observed) {
	if !o.CoordinatorUp {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range o.Workers {
		m := l.memory[w.ID]
		slow := w.Running && !w.Stopping && !w.Registered && w.LostAt.IsZero() && !w.RoleSince.IsZero() && o.Now.Sub(w.RoleSince) >= l.cfg.Ready/askAfter
		if !slow || m == nil || m.progress.asking || o.Now.Sub(m.progress.asked) < l.cfg.Ready/askEvery {
			continue
		}
		in, ok := l.listedInstance(w.ID)
		if !ok {
			continue
		}
		m.progress.asking, m.progress.asked = true, o.Now
		l.jobs.Go(func() { l.noteProgress(ctx, m, in.Control) })
	}
}

// noteProgress asks one worker for its progress. It does not wake the loop: the plan only looks at the time.
func (l *Loop) noteProgress(ctx context.Context, m *memory, url string) {
	ctx, cancel := context.WithTimeout(ctx, assignTimeout)
	defer cancel()
	status, err := l.cfg.Workers.Status(ctx, url)
	now := l.cfg.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	m.progress.asking = false
	if err == nil && status.Progress > m.progress.figure {
		m.progress.figure, m.progress.at = status.Progress, now
	}
}
