package process

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"

	"rideshare/internal/logkey"
	"rideshare/internal/wait"
)

const (
	// firstPause and maxPause bound the pause before a dead child is restarted; it doubles between them. The first pause
	// is short, so that a crash costs little; the last keeps a child that cannot run from becoming a fork bomb.
	firstPause = 100 * time.Millisecond
	maxPause   = 5 * time.Second
	// stableAfter is how long a child must have run for its next death to count as the first.
	stableAfter = 10 * time.Second
)

// ChildConfig says what Supervise keeps running. Name is required.
type ChildConfig struct {
	Name string // in the log
	// Binary is the program; empty means the running program.
	Binary string
	// Args are its arguments, without the program's name.
	Args []string
	// Env is its environment; nil means the environment of this process.
	Env []string
	// Listen is the address of the listener handed over to it; empty means a free port on 127.0.0.1.
	Listen string
	// Scheme of its URL, http or https; empty means http.
	Scheme string
	// Stdout and Stderr are as in Config.
	Stdout, Stderr io.Writer
	Log            *slog.Logger

	drainLimit time.Duration // as in Config
}

// Child is a program that is kept running until it is stopped. It is safe for concurrent use.
type Child struct {
	config   ChildConfig
	program  program
	listener *net.TCPListener
	stopping chan struct{} // closed by Stop
	stopped  chan struct{} // closed when no process is left

	mu   sync.Mutex // guards the fields below; held during a start
	stop bool
	life *life
}

// Supervise starts a program and restarts it whenever it ends, always on the same address: the listener stays open here,
// so connections wait in it while no process runs. The caller must Stop the child. A nil error means that the process
// runs, not that it is ready to serve. An error means that nothing was started; it names the binary or the address.
// Later starts that fail are retried.
func Supervise(c ChildConfig) (*Child, error) {
	binary, err := findBinary(c.Binary)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", c.Name, err)
	}
	c.Listen = cmp.Or(c.Listen, "127.0.0.1:0")
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	c.Log = c.Log.With(logkey.Process, c.Name)
	listener, err := listen(c.Listen)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", c.Name, err)
	}
	child := &Child{
		config: c, listener: listener,
		program: program{
			binary: binary, args: c.Args, env: c.Env, listener: listener,
			stdout: &sink{w: c.Stdout}, stderr: &sink{w: c.Stderr}, drainLimit: cmp.Or(c.drainLimit, drainLimit),
		},
		stopping: make(chan struct{}), stopped: make(chan struct{}),
	}
	if _, err = child.begin(); err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", c.Name, err), listener.Close())
	}
	go child.keep() // ends with Stop
	return child, nil
}

// URL returns the base URL of the child, without a slash at its end. It never changes.
func (c *Child) URL() string { return urlOf(c.config.Scheme, c.listener.Addr().String()) }

// Stop asks the child to finish (SIGTERM), kills it when grace is over, and closes the listener. A nil error means that
// the child is dead and will not be restarted. An error wraps that of ctx, which ended first: the child is not
// restarted, and Stop may be called again.
func (c *Child) Stop(ctx context.Context, grace time.Duration) error {
	c.mu.Lock()
	if !c.stop {
		c.stop = true
		close(c.stopping)
	}
	last := c.life
	c.mu.Unlock()
	if err := last.stop(ctx, grace); err != nil {
		return fmt.Errorf("stop %s: %w", c.config.Name, err)
	}
	<-c.stopped // keep has seen stopping, and its child is dead
	return nil
}

// begin starts the program. It returns nil if the child was stopped.
func (c *Child) begin() (*life, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stop {
		return nil, nil
	}
	e, err := begin(c.program)
	if err != nil {
		return nil, err
	}
	c.life = e
	c.config.Log.Debug("process started", logkey.PID, e.pid(), logkey.Addr, c.URL())
	return e, nil
}

func newPause() wait.Backoff { return wait.Backoff{First: firstPause, Cap: maxPause} }

// keep restarts the program each time it has ended.
func (c *Child) keep() {
	defer close(c.stopped)
	defer func() { _ = c.listener.Close() }() // this process accepted no connections on it
	var deaths wait.Streak
	pause := newPause()
	for e := c.life; e != nil; e = c.again(&deaths, &pause) {
		select {
		case <-e.ended:
		case <-time.After(stableAfter):
			if count := deaths.End(); count > 1 { // the first death was logged on its own
				c.config.Log.Info("process runs again", logkey.Count, count)
			}
			pause.Reset()
			<-e.ended
		}
		c.logDeath(e, &deaths)
	}
}

// logDeath counts a death and logs it. Of consecutive deaths only the first is logged here, and keep logs their number:
// a child that cannot run would otherwise fill the log.
func (c *Child) logDeath(dead *life, deaths *wait.Streak) {
	c.mu.Lock()
	stop := c.stop
	c.mu.Unlock()
	log := c.config.Log.With(logkey.PID, dead.pid())
	if deaths.Fail() || stop {
		logEnd(log, dead, stop)
		return
	}
	log.Debug("process died again", logkey.Code, dead.exitCode, logkey.Count, deaths.Count(), logkey.Reason, dead.words())
}

// again starts the next life after a pause. A start that fails counts as another death. again returns nil once the child
// is stopped.
func (c *Child) again(deaths *wait.Streak, pause *wait.Backoff) *life {
	for {
		select {
		case <-time.After(pause.Next()):
		case <-c.stopping:
			return nil
		}
		next, err := c.begin()
		if err == nil {
			return next
		}
		c.config.Log.Warn("process not started", logkey.Count, deaths.Count(), logkey.Error, err)
		deaths.Fail()
	}
}
