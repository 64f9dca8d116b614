// Package docker starts workers as containers, from the same image as every other part and with only the rights they
// need. All its state can be found again from the labels on the containers, so it may be killed and restarted at any
// time.
package docker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"sync"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/logkey"
	"rideshare/internal/wait"
	"rideshare/orchestrator/launch"
)

// Config is what a Launcher needs. Engine, Stack, Image, Network, BusFile, Coordinator, Session and Persdb are required.
type Config struct {
	Engine Engine
	// Stack names the system. Containers without its label are foreign and never touched.
	Stack string
	// Project is the compose project whose `down --remove-orphans` also removes the workers; "" for no project.
	Project string
	// Image is the image that every part runs in, with the rideshare binary as its entry point.
	Image string
	// Network is the network where workers reach the other parts and are reached by their names. "host" is the network
	// of the engine's machine, where a worker gets a free port on 127.0.0.1.
	Network string
	// BusFile is the path, on the engine's machine, of the file with the broker's URL. The file is mounted read-only; an
	// environment variable would show in `docker inspect`.
	BusFile string
	// TLS is a directory on the engine's machine, mounted read-only, with the workers' cert.pem, key.pem and ca.pem; ""
	// for workers without TLS.
	TLS         string
	Coordinator string        // zk://host:port/chroot
	Session     time.Duration // a worker's session length at the coordinator
	Persdb      string        // base URL
	Prefix      string        // prefix of the queue names
	LogLevel    string        // of the workers
	Env         []string      // additional settings of the workers, NAME=value
	Limits      Limits
	Log         *slog.Logger
}

// Limits bounds the resources of one worker.
type Limits struct {
	// User is uid:gid, in numbers. The user must be able to read BusFile.
	User string
	// Memory is all the memory that a worker may use, in bytes, including its replica.
	Memory int64
	// Replica is the size of the in-memory file system for the replica, in bytes.
	Replica int64
	// Answers bounds the answers that wait to be sent, in bytes: whole MiB.
	Answers int64
	CPUs    float64
	// PIDs is the maximum number of threads.
	PIDs int64
}

// check returns an error for settings that can never work.
func (c Config) check() error {
	if !user.MatchString(c.Limits.User) {
		return fmt.Errorf("user %q is not uid:gid in numbers", c.Limits.User)
	}
	for name, value := range map[string]string{
		"stack": c.Stack, "image": c.Image, "network": c.Network, "bus file": c.BusFile, "coordinator": c.Coordinator, "persdb": c.Persdb,
	} {
		if value == "" {
			return fmt.Errorf("no %s is given", name)
		}
	}
	if c.Session <= 0 {
		return fmt.Errorf("session of %v is not positive", c.Session)
	}
	if c.Limits.Replica <= 0 || c.Limits.Memory < c.Limits.Replica+minMemory || c.Limits.CPUs <= 0 || c.Limits.PIDs <= 0 {
		return fmt.Errorf("limits must be positive, and memory %d MiB more than the replica", minMemory>>20)
	}
	if c.Limits.Answers < 1<<20 {
		return fmt.Errorf("the limit of answers that wait is %d bytes, not at least 1 MiB", c.Limits.Answers)
	}
	return nil
}

var user = regexp.MustCompile(`^\d+:\d+$`)

// minMemory is the memory that a worker needs besides its replica, in bytes.
const minMemory = 64 << 20

// Launcher implements launch.Launcher. It is safe for concurrent use.
type Launcher struct {
	config Config
	engine Engine
	log    *slog.Logger
	events wait.Token
	end    context.CancelFunc
	watch  sync.WaitGroup
	// inspectLimit is the constant, except in tests.
	inspectLimit time.Duration

	mu       sync.Mutex               // guards the fields below
	starting map[string]chan struct{} // by start id; closed when the start is over
	asked    map[dbaas.WorkerID]bool  // workers that were asked to end
	dead     map[string]int           // exit codes of containers whose death the engine reported, by the engine's id
	seen     map[string]Container     // what Inspect last returned to List, by the engine's id
	recorded map[string]bool          // containers whose end was logged, by the engine's id
}

var _ launch.Launcher = (*Launcher)(nil)

// New returns a Launcher that watches the engine until Close. The engine need not be up yet; an error means that a
// setting can never work.
func New(c Config) (*Launcher, error) {
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("docker launcher: %w", err)
	}
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	l := &Launcher{
		config: c, engine: c.Engine, log: c.Log, events: wait.NewToken(), inspectLimit: inspectLimit,
		starting: map[string]chan struct{}{}, asked: map[dbaas.WorkerID]bool{}, dead: map[string]int{}, seen: map[string]Container{}, recorded: map[string]bool{},
	}
	ctx, end := context.WithCancel(context.Background())
	l.end = end
	l.watch.Go(func() { l.watchEngine(ctx) })
	return l, nil
}

// Close stops watching for events. Workers keep running, for the next Launcher of the stack.
func (l *Launcher) Close(context.Context) error {
	l.end()
	l.watch.Wait()
	return nil
}

// Events implements launch.Launcher.
func (l *Launcher) Events() <-chan struct{} { return l.events }

const (
	// firstPause and lastPause bound the wait of the watch after an error; it doubles between them.
	firstPause = 50 * time.Millisecond
	lastPause  = time.Second
)

// watchEngine turns changes into tokens until ctx ends. No event reports what changed while the engine was lost, so a
// restored connection counts as a change too.
func (l *Launcher) watchEngine(ctx context.Context) {
	var lost wait.Streak
	backoff := wait.Backoff{First: firstPause, Cap: lastPause}
	for {
		err := l.engine.Watch(ctx, l.stack(), func(c Change) {
			if failures := lost.End(); failures > 0 {
				l.log.InfoContext(ctx, "engine found again", logkey.Count, failures)
			}
			backoff.Reset()
			l.note(c)
			l.events.Give()
		})
		if ctx.Err() != nil {
			return
		}
		if lost.Fail() {
			l.log.WarnContext(ctx, "engine lost", logkey.Error, err)
		}
		if !backoff.Wait(ctx) {
			return
		}
	}
}

// note remembers which workers died, so that List need not wait for the engine to clean up after them. Reports from
// before the engine was lost may be outdated, so the zero Change deletes them all.
func (l *Launcher) note(c Change) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case c == Change{}:
		clear(l.dead)
	case c.Died:
		l.dead[c.ID] = c.ExitCode
	case c.Started:
		delete(l.dead, c.ID)
	}
}

// gone translates errNotFound to launch.ErrNoWorker, and every other error to launch.ErrUnavailable.
func gone(what string, err error) error {
	if errors.Is(err, errNotFound) {
		return fmt.Errorf("%s: %w", what, launch.ErrNoWorker)
	}
	return launch.Unavailable(what, err)
}
