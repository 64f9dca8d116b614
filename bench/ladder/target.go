package ladder

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/valyala/fasthttp"
)

const (
	// startLimit bounds the start of one path, stopLimit its end.
	startLimit = time.Minute
	stopLimit  = 8 * time.Second
	startPoll  = 10 * time.Millisecond
	// removeLimit bounds the deletion of what a path has left at the broker and the coordinator.
	removeLimit = 20 * time.Second
)

// target is one path that runs in a process of its own.
type target struct {
	path
	addresses addresses
	parts     parts
	dial      fasthttp.DialFunc // nil: TCP
	touched   bool              // rows were written since it was settled
	marks     int               // how often it was settled after such writes

	cmd    *exec.Cmd
	stdin  io.Closer
	ended  chan error                  // receives the process's error, once
	remove func(context.Context) error // deletes what the path has left at the broker and the coordinator
}

// Environment holds the external dependencies of the paths.
type Environment struct {
	Bus, Coordinator string
	// BrokerPID is the pid of the broker, or zero if unknown.
	BrokerPID int
	// Postgres is the database for a log, or empty if there is none; see pglog.Config. Its user may create schemas.
	Postgres, PostgresPasswordFile string
	// Rqlite is the path of the program rqlited. If it is empty, rqlite is not measured.
	Rqlite string
}

// startTarget starts a path in a process and returns once it serves.
func startTarget(ctx context.Context, p path, dir string, env Environment) (*target, error) {
	run := filepath.Base(filepath.Dir(dir)) + "-" + p.name
	own := Environment{Bus: env.Bus, Coordinator: strings.TrimSuffix(env.Coordinator, "/") + "/" + run}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make a directory: %w", err)
	}
	dropSchema := func(context.Context) error { return nil }
	if p.postgres {
		var err error
		if own.Postgres, dropSchema, err = makeSchema(ctx, env, run); err != nil {
			return nil, fmt.Errorf("start %s: %w", p.name, err)
		}
	}
	t := &target{path: p, ended: make(chan error, 1), remove: func(ctx context.Context) error {
		return errors.Join(p.remove(ctx, own, run+"-"), dropSchema(ctx))
	}}
	binary, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	ready := filepath.Join(dir, "ready.json")
	// The process ends when its standard input does, so it never outlives this process.
	t.cmd = exec.Command(binary, "bench", "serve", p.name, "--dir", dir, "--ready-file", ready, "--prefix", run+"-") //nolint:gosec,noctx // this program itself; it is ended by its input.
	t.cmd.Env = append(os.Environ(), "RIDESHARE_BUS="+own.Bus, "RIDESHARE_COORDINATOR="+own.Coordinator,
		"BENCH_POSTGRES="+own.Postgres, "BENCH_POSTGRES_PASSWORD_FILE="+env.PostgresPasswordFile, "BENCH_RQLITE="+env.Rqlite)
	t.cmd.Stderr = os.Stderr
	if t.stdin, err = t.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("start %s: %w", p.name, err)
	}
	if err = t.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", p.name, err)
	}
	go func() { t.ended <- t.cmd.Wait() }()
	if err = t.await(ctx, ready); err == nil {
		t.parts, err = t.findParts(ctx, env)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", p.name, err), t.stop())
	}
	return t, nil
}

// await waits until the process has reported its addresses.
func (t *target) await(ctx context.Context, file string) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	poll := time.NewTicker(startPoll)
	defer poll.Stop()
	for {
		text, err := os.ReadFile(file) //nolint:gosec // a file of this run.
		if err == nil {
			if err = json.Unmarshal(text, &t.addresses); err != nil {
				return fmt.Errorf("decode addresses: %w", err)
			}
			return nil
		}
		select {
		case <-poll.C:
		case err = <-t.ended:
			t.ended <- err
			return fmt.Errorf("it ended: %w", errors.Join(err, errors.New("see above")))
		case <-ctx.Done():
			return fmt.Errorf("it is not ready: %w", ctx.Err())
		}
	}
}

// findParts identifies the processes of the path.
func (t *target) findParts(ctx context.Context, env Environment) (parts, error) {
	p := parts{"load": {os.Getpid()}}
	pid := t.cmd.Process.Pid
	if t.queue && env.BrokerPID != 0 {
		p["broker"] = []int{env.BrokerPID}
	}
	if t.nodes > 0 {
		p["server"] = slices.Collect(maps.Keys(children(pid)))
		return p, nil
	}
	if !t.product || !t.queue {
		p["server"] = []int{pid}
		return p, nil
	}
	p["orchestrator"] = []int{pid}
	members, err := t.members(ctx)
	if err != nil {
		return nil, err
	}
	for _, m := range members {
		p[m.Role] = append(p[m.Role], m.PID)
	}
	for child, command := range children(pid) {
		if command == "persdb" {
			p["persdb"] = append(p["persdb"], child)
		}
	}
	return p, nil
}

func (t *target) usage() usage { return t.parts.usage() }

// stop asks the process to finish, and kills it if it does not. Then it deletes what the path has left.
func (t *target) stop() error {
	err := t.stdin.Close()
	select {
	case ended := <-t.ended:
		err = errors.Join(err, ended)
	case <-time.After(2 * stopLimit):
		err = errors.Join(err, t.cmd.Process.Kill(), <-t.ended, fmt.Errorf("%s did not end", t.name))
	}
	ctx, cancel := context.WithTimeout(context.Background(), removeLimit) // also for a run that was interrupted
	defer cancel()
	return errors.Join(err, t.remove(ctx))
}
