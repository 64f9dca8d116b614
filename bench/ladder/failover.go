package ladder

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"rideshare/bench/api"
	"rideshare/internal/wait"
	"rideshare/orchestrator/scale"
	"rideshare/system"
)

// FailoverMode is how the master is taken away.
type FailoverMode string

// The modes.
const (
	FailoverKill    FailoverMode = "kill"    // SIGKILL, which the control loop has to notice by itself
	FailoverCrash   FailoverMode = "crash"   // POST crash/master, which also wakes the control loop
	FailoverPause   FailoverMode = "pause"   // SIGSTOP: it hangs, and only its session shows that
	FailoverPlanned FailoverMode = "planned" // POST master: hand-over
)

// FailoverConfig says what to measure.
type FailoverConfig struct {
	// Orchestrator is the base URL of a running system; if empty, a system is started for the run.
	Orchestrator string
	// Processes says how to start that system; nil runs everything in this process.
	Processes *system.Processes
	Mode      FailoverMode
	Kills     int
	Slaves    int
	// Writes and Reads are sent per second, whether or not earlier ones are answered.
	Writes, Reads int
	// Progress gets a line for each kill.
	Progress io.Writer
}

const (
	// failoverWhole bounds the wait until the system is complete again.
	failoverWhole = time.Minute
	// failoverRest is the longest random pause between a complete system and the next kill; the shortest is a fifth.
	failoverRest = time.Second
	// failoverCall is longer than any call may take: a system that has not answered by then hangs.
	failoverCall = 15 * time.Second
)

// failover is one run.
type failover struct {
	FailoverConfig

	url    string
	client api.Client
	load   *failoverLoad
	system *system.System // started for the run; nil if the system runs elsewhere
}

// ErrWrong means that acknowledged writes were lost or doubled: the report has their numbers.
var ErrWrong = errors.New("acknowledged writes were lost or doubled")

// Failover takes the master away again and again under a constant load, and measures how long no write is acknowledged.
// At the end it looks for lost and doubled writes. If there are some, it returns ErrWrong with a complete report.
func Failover(ctx context.Context, cfg FailoverConfig) (report *FailoverReport, err error) {
	f := &failover{
		FailoverConfig: cfg, url: cfg.Orchestrator,
		client: api.Client{HTTP: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1024}}, Timeout: failoverCall},
	}
	if f.url == "" {
		stop, startErr := f.start(ctx)
		if startErr != nil {
			return nil, startErr
		}
		defer func() { err = errors.Join(err, stop()) }()
	}
	return f.run(ctx)
}

// start starts a system. The returned function stops the system and removes its data.
func (f *failover) start(ctx context.Context) (stop func() error, err error) {
	dir, err := os.MkdirTemp("", "rideshare-failover-")
	if err != nil {
		return nil, fmt.Errorf("make a directory: %w", err)
	}
	running, err := system.StartOrchestrator(ctx, system.Config{
		Log: slog.New(slog.DiscardHandler), Data: filepath.Join(dir, "data"), Name: "failover", Processes: f.Processes,
		Orchestrator: anyPort, Slaves: f.Slaves, CallTimeout: callTimeout,
		// The number of slaves stays constant: the first tick is after the run.
		Scale: system.Scale{Policy: scale.Reads{PerSlave: 20, Limits: scale.Limits{Min: f.Slaves, Max: f.Slaves}}, Period: 24 * time.Hour},
	})
	if err != nil {
		return nil, errors.Join(err, f.remove(), os.RemoveAll(dir))
	}
	stop = func() error {
		f.client.HTTP.CloseIdleConnections()
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), failoverCall)
		defer cancel()
		return errors.Join(running.Close(closing), f.remove(), os.RemoveAll(dir))
	}
	if err := running.Ready(ctx); err != nil {
		return nil, errors.Join(err, stop())
	}
	f.url, f.system = running.URLs().Orchestrator, running
	return stop, nil
}

// remove deletes what the system that was started has left at the broker and the coordinator.
func (f *failover) remove() error {
	if f.Processes == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), removeLimit) // also for a run that was interrupted
	defer cancel()
	return f.Processes.Remove(ctx, slog.New(slog.DiscardHandler))
}

// callTimeout is the system's deadline for each call.
const callTimeout = 5 * time.Second

func (f *failover) run(ctx context.Context) (*FailoverReport, error) {
	if _, err := f.whole(ctx); err != nil {
		return nil, err
	}
	load, err := f.startLoad(ctx)
	if err != nil {
		return nil, err
	}
	defer load.end()
	watching, unwatch := context.WithCancel(ctx)
	defer unwatch()
	changes := f.watch(watching)
	var kills []kill
	for i := range f.Kills {
		if !wait.For(ctx, failoverRest/5+rand.N(failoverRest)) { //nolint:gosec // no secret.
			return nil, context.Cause(ctx)
		}
		k, err := f.kill(ctx)
		if err != nil {
			return nil, fmt.Errorf("kill %d: %w", i+1, err)
		}
		kills = append(kills, k)
		_, _ = fmt.Fprintf(f.Progress, "%d/%d: master %d, whole again after %v\n", i+1, f.Kills, k.pid, k.whole.Sub(k.at).Round(time.Millisecond)) // progress only.
	}
	if !wait.For(ctx, failoverRest) {
		return nil, context.Cause(ctx)
	}
	load.end()
	unwatch()
	report := f.report(kills, <-changes)
	if failed := load.compare(ctx, report); failed != nil || report.Lost+report.Doubled == 0 {
		return report, failed
	}
	return report, fmt.Errorf("%w: %d lost, %d doubled", ErrWrong, report.Lost, report.Doubled)
}

// kill is one removal of a master.
type kill struct {
	pid       int
	at, whole time.Time
}

// kill takes the master away and waits until the system is complete.
func (f *failover) kill(ctx context.Context) (kill, error) {
	before, err := f.whole(ctx)
	if err != nil {
		return kill{}, err
	}
	master, _ := masterOf(before)
	k := kill{pid: master.PID, at: time.Now()}
	if err = f.strike(ctx, master); err != nil {
		return k, err
	}
	for deadline := k.at.Add(failoverWhole); ; {
		after, err := f.whole(ctx)
		if err == nil && after.Epoch > before.Epoch {
			k.whole = time.Now()
			return k, nil
		}
		if time.Now().After(deadline) {
			return k, fmt.Errorf("no new master within %v: %+v: %w", failoverWhole, after, err)
		}
		if !wait.For(ctx, pollEvery) {
			return k, context.Cause(ctx)
		}
	}
}

// strike takes the master away.
func (f *failover) strike(ctx context.Context, master api.Member) error {
	switch f.Mode {
	case FailoverPlanned:
		return f.call(ctx, http.MethodPost, "/api/v1/master", nil, nil)
	case FailoverCrash:
		return f.call(ctx, http.MethodPost, "/api/v1/crash/master", nil, nil)
	case FailoverPause:
		return signalWorker(master.PID, syscall.SIGSTOP)
	case FailoverKill:
		if f.system != nil && f.Processes == nil {
			return f.system.Kill(ctx, master.Worker) // its pid is not a real process id
		}
		return signalWorker(master.PID, syscall.SIGKILL)
	}
	return fmt.Errorf("no mode %q", f.Mode)
}

// signalWorker sends a signal to a worker that is a process of this machine. A pid of another machine could be any
// process here.
func signalWorker(pid int, signal syscall.Signal) error {
	if commandOf(pid) != "worker" {
		return fmt.Errorf("process %d is no worker on this machine: for a system that runs elsewhere use --mode crash or planned", pid)
	}
	if err := syscall.Kill(pid, signal); err != nil {
		return fmt.Errorf("signal process %d: %w", pid, err)
	}
	return nil
}

// pollEvery is how often the cluster is polled until it is complete.
const pollEvery = 20 * time.Millisecond

func masterOf(c api.Cluster) (api.Member, bool) {
	i := slices.IndexFunc(c.Members, func(m api.Member) bool { return m.Role == "master" && m.Ready })
	if i < 0 {
		return api.Member{}, false
	}
	return c.Members[i], true
}

func isWhole(c api.Cluster) bool {
	_, led := masterOf(c)
	return led && len(c.Members) == c.Desired+1 && !slices.ContainsFunc(c.Members, func(m api.Member) bool { return !m.Ready })
}

// whole waits until there is a master and every wanted slave.
func (f *failover) whole(ctx context.Context) (api.Cluster, error) {
	for deadline := time.Now().Add(failoverWhole); ; {
		var c api.Cluster
		err := f.call(ctx, http.MethodGet, "/api/v1/cluster", nil, &c)
		if err == nil && isWhole(c) {
			return c, nil
		}
		if time.Now().After(deadline) {
			return c, fmt.Errorf("not whole within %v: %+v: %w", failoverWhole, c, err)
		}
		if !wait.For(ctx, pollEvery) {
			return c, context.Cause(ctx)
		}
	}
}

// call makes a request that must be answered with 200, and decodes the answer into out unless out is nil.
func (f *failover) call(ctx context.Context, method, path string, in, out any) error {
	r := f.client.Send(ctx, method, f.url+path, in)
	if r.Err != nil {
		return r.Err
	}
	if r.Status != http.StatusOK {
		return fmt.Errorf("%s %s: status %d: %.200s", method, path, r.Status, r.Body)
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(r.Body, out); err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	return nil
}
