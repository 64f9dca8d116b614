package docker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"rideshare/internal/logkey"
	"rideshare/orchestrator/launch"
)

// startGrace is how long a start continues after its caller's context has ended. A start takes 0.4 s. An interrupted start
// leaves a container that List does not show, so a system that stops would not end it.
const startGrace = time.Second

// Start implements launch.Launcher. It returns up to startGrace after ctx's end. ErrUnavailable: the worker may still
// start. Any other error means that no worker runs and nothing is left behind; it says what to do, for example about a
// missing image.
func (l *Launcher) Start(ctx context.Context, startID string) (launch.Instance, error) {
	done, err := l.begin(ctx, startID)
	if err != nil {
		return launch.Instance{}, err
	}
	defer done()
	if err = ctx.Err(); err != nil {
		return launch.Instance{}, launch.Unavailable("start worker", err)
	}
	ctx, cancel := outlasting(ctx)
	defer cancel()
	c, err := l.made(ctx, startID)
	if err != nil {
		return launch.Instance{}, err
	}
	if c.Status == statusCreated { // never started; a dead container is not restarted
		if c, err = l.run(ctx, c); err != nil {
			return launch.Instance{}, err
		}
	}
	return describe(c), nil
}

// outlasting returns a context that ends startGrace after ctx.
func outlasting(ctx context.Context) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(startGrace, cancel) })
	return longer, func() { stop(); cancel() }
}

// begin waits until no other start with this id is under way in this process. done ends this start. Without begin, a
// second start could restart a container whose worker, started by the first, has already died.
func (l *Launcher) begin(ctx context.Context, startID string) (done func(), err error) {
	for {
		l.mu.Lock()
		other := l.starting[startID]
		if other == nil {
			own := make(chan struct{})
			l.starting[startID] = own
			l.mu.Unlock()
			return func() {
				l.mu.Lock()
				defer l.mu.Unlock()
				delete(l.starting, startID)
				close(own)
			}, nil
		}
		l.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, launch.Unavailable("start worker", ctx.Err())
		}
	}
}

// made returns the container of a start and creates it if there is none. Its name is derived from startID. So a lost
// answer does no harm: on retry the name is taken.
func (l *Launcher) made(ctx context.Context, startID string) (Container, error) {
	p, err := l.plan(startID)
	if err != nil {
		return Container{}, fmt.Errorf("start worker: %w", err)
	}
	_, err = l.engine.Create(ctx, p)
	switch {
	case err == nil, errors.Is(err, errConflict):
	case errors.Is(err, errMissingImage):
		return Container{}, fmt.Errorf("start worker: the engine has no image %q: build it (make images) or pull it (docker pull %s), or name another one: %w",
			p.Image, p.Image, err)
	case errors.Is(err, errRefused):
		return Container{}, fmt.Errorf("start worker: %w", err)
	default:
		return Container{}, launch.Unavailable("start worker", err)
	}
	c, err := l.engine.Inspect(ctx, p.Name)
	if err != nil { // removed in the meantime, or no answer: a retry of this start finds out
		return Container{}, launch.Unavailable("start worker", err)
	}
	if c.Labels[labelStack] != l.config.Stack || c.Labels[labelStart] != startID {
		return Container{}, fmt.Errorf("start worker: container %s (%s) has this name but was not made by this start: remove it", c.Name, c.ID)
	}
	return c, nil
}

// run starts a container that was created, and removes it if it cannot be started.
func (l *Launcher) run(ctx context.Context, c Container) (Container, error) {
	err := l.engine.Start(ctx, c.ID)
	switch {
	case errors.Is(err, errRefused), errors.Is(err, errNotFound): // errNotFound may be about its network
		err = fmt.Errorf("start worker: %w", err)
		if removed := l.engine.Remove(ctx, c.ID); removed != nil && !errors.Is(removed, errNotFound) {
			err = errors.Join(err, fmt.Errorf("remove what did not start: %w", removed))
		}
		return Container{}, err
	case err != nil:
		return Container{}, launch.Unavailable("start worker", err)
	}
	started, err := l.engine.Inspect(ctx, c.ID)
	if err != nil {
		return Container{}, launch.Unavailable("start worker", err)
	}
	l.log.InfoContext(ctx, "container started", logkey.Worker, string(identity(started)), logkey.PID, started.PID, "container", started.Name)
	return started, nil
}

func describe(c Container) launch.Instance {
	i := launch.Instance{
		ID: identity(c), StartID: c.Labels[labelStart], Control: c.Labels[labelControl], StartedAt: c.StartedAt,
	}
	if c.running() {
		i.Running, i.PID = true, c.PID
	} else {
		i.ExitCode = c.ExitCode
	}
	return i
}
