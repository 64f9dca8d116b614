package docker_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"rideshare/orchestrator/launch/docker"
)

// fakeEngine is an engine in memory whose calls can go wrong. It is safe for concurrent use.
type fakeEngine struct {
	mu         sync.Mutex // guards the fields below
	containers map[string]*docker.Container
	tails      map[string]string
	calls      []string
	planned    docker.Plan // of the last container
	nextID     int
	pid        int
	// lose makes the answer to a call, by its name, get lost after it happened; fail returns the error instead of doing it.
	lose map[string]int
	fail map[string]error
	// stuck are the ids of containers that Inspect waits for without end.
	stuck map[string]bool

	watches chan chan error // of each Watch, what ends it
	changed func(docker.Change)
}

func newFake() *fakeEngine {
	return &fakeEngine{
		containers: map[string]*docker.Container{}, tails: map[string]string{}, pid: 100,
		lose: map[string]int{}, fail: map[string]error{}, stuck: map[string]bool{}, watches: make(chan chan error, 10),
	}
}

var errLost = errors.New("connection reset")

// do is one call of the engine.
func (f *fakeEngine) do(name, what string, effect func() error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, strings.TrimSpace(name+" "+what))
	if err := f.fail[name]; err != nil {
		return err
	}
	err := effect()
	if f.lose[name] > 0 {
		f.lose[name]--
		return errLost
	}
	return err
}

func (f *fakeEngine) find(idOrName string) (*docker.Container, error) {
	for _, c := range f.containers {
		if c.ID == idOrName || c.Name == idOrName {
			return c, nil
		}
	}
	return nil, docker.ErrNotFound
}

func (f *fakeEngine) Create(_ context.Context, p docker.Plan) (id string, err error) {
	err = f.do("create", p.Name, func() error {
		if _, taken := f.find(p.Name); taken == nil {
			return docker.ErrConflict
		}
		f.nextID++
		f.planned = p
		id = fmt.Sprintf("%012d%s", f.nextID, strings.Repeat("f", 52))
		f.containers[id] = &docker.Container{ID: id, Name: p.Name, Labels: p.Labels, Status: "created", CreatedAt: time.Now()}
		return nil
	})
	return id, err
}

func (f *fakeEngine) Start(_ context.Context, id string) error {
	return f.do("start", "", func() error {
		c, err := f.find(id)
		if err != nil {
			return err
		}
		c.Status, c.PID, c.StartedAt = "running", f.pid, time.Now()
		f.pid++
		return nil
	})
}

func (f *fakeEngine) Signal(_ context.Context, id, signal string) error {
	return f.do("signal", signal, func() error {
		c, err := f.find(id)
		if err == nil && c.Status != "running" && c.Status != "paused" {
			err = docker.ErrConflict
		}
		if err != nil {
			return err
		}
		if signal == "SIGKILL" {
			c.Status, c.PID, c.ExitCode = "exited", 0, 137
		}
		return nil
	})
}

func (f *fakeEngine) Wait(ctx context.Context, id string) error {
	for {
		f.mu.Lock()
		c, err := f.find(id)
		over := err != nil || c.Status == "exited" || c.Status == "created"
		f.mu.Unlock()
		if over {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Millisecond): // in a synctest bubble
		}
	}
}

func (f *fakeEngine) Remove(_ context.Context, id string) error {
	return f.do("remove", "", func() error {
		_, err := f.find(id)
		delete(f.containers, id)
		return err
	})
}

func (f *fakeEngine) Inspect(ctx context.Context, idOrName string) (docker.Container, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c, err := f.find(idOrName)
	if err != nil {
		return docker.Container{}, err
	}
	if f.stuck[c.ID] {
		f.mu.Unlock()
		<-ctx.Done()
		f.mu.Lock()
		return docker.Container{}, ctx.Err()
	}
	return *c, nil
}

func (f *fakeEngine) List(_ context.Context, label string) (list []docker.Container, err error) {
	key, value, _ := strings.Cut(label, "=")
	err = f.do("list", "", func() error {
		for _, c := range f.containers {
			if c.Labels[key] == value {
				list = append(list, docker.Container{ID: c.ID, Labels: c.Labels, Status: c.Status, CreatedAt: c.CreatedAt})
			}
		}
		return nil
	})
	return list, err
}

func (f *fakeEngine) Tail(_ context.Context, id string, lines int) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.tails[id] + " of " + strconv.Itoa(lines), nil
}

func (f *fakeEngine) Watch(ctx context.Context, _ string, each func(docker.Change)) error {
	end := make(chan error)
	f.mu.Lock()
	err := f.fail["watch"]
	f.calls = append(f.calls, "watch")
	f.changed = each
	f.mu.Unlock()
	if err != nil {
		return err
	}
	each(docker.Change{})
	select {
	case f.watches <- end:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-end:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// set changes what the engine does from now on.
func (f *fakeEngine) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// count returns how often a call was made.
func (f *fakeEngine) count(call string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, c := range f.calls {
		if c == call || strings.HasPrefix(c, call+" ") {
			n++
		}
	}
	return n
}

// only returns the one container that there is.
func (f *fakeEngine) only() *docker.Container {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.containers) != 1 {
		panic(fmt.Sprintf("%d containers, want one", len(f.containers)))
	}
	for _, c := range f.containers {
		return c
	}
	return nil
}
