package ladder

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"syscall"
	"time"

	"rideshare/bench/api"
	"rideshare/internal/failpoint"
	"rideshare/internal/progressbar"
	"rideshare/internal/wait"
	"rideshare/orchestrator/scale"
	"rideshare/system"
)

// FailoverMode is how the master is taken away.
type FailoverMode string

// Hangs reports whether the mode makes the process of the master hang.
func (m FailoverMode) Hangs() bool {
	return m == FailoverPause || m == FailoverStuck || m == FailoverSpin
}

// The modes.
const (
	FailoverKill    FailoverMode = "kill"    // SIGKILL, which the control loop has to notice by itself
	FailoverCrash   FailoverMode = "crash"   // POST crash/master, which also wakes the control loop
	FailoverPause   FailoverMode = "pause"   // SIGSTOP: it hangs
	FailoverStuck   FailoverMode = "stuck"   // its commits wait for ever; it answers
	FailoverSpin    FailoverMode = "spin"    // its commits loop for ever; it answers
	FailoverPlanned FailoverMode = "planned" // POST master: hand-over
)

// FailoverConfig says what to measure.
type FailoverConfig struct {
	// Orchestrator is the base URL of a running system, or several, see api.Client.At; if empty, a system is started for the run.
	Orchestrator string
	// Processes says how to start that system; nil runs everything in this process.
	Processes *system.Processes
	Mode      FailoverMode
	Kills     int
	Slaves    int
	// Writes and Reads are sent per second, whether or not earlier ones are answered.
	Writes, Reads int
	// Unguarded turns the protection from overload off in the system that is started.
	Unguarded bool
	// Progress shows how many kills are done.
	Progress progressbar.Output
}

const (
	// failoverWhole bounds the wait until the system is complete again.
	failoverWhole = time.Minute
	// failoverRest is the longest random pause between a complete system and the next kill; the shortest is a fifth.
	failoverRest = time.Second
	// failoverAnswer bounds the wait for a write that is sent after the last kill.
	failoverAnswer = 10 * time.Second
	// failoverCall is longer than any call may take: a system that has not answered by then is considered hung.
	failoverCall = 15 * time.Second
)

// failover is one run.
type failover struct {
	FailoverConfig
	measured

	load   *failoverLoad
	system *system.System // started for the run; nil if the system runs elsewhere
	steps  *progressbar.Steps
	vain   bool // hear has waited in vain

	mu       sync.Mutex // guards the fields below
	streamed bool       // the system has a stream of events
	changes  []change   // of that stream so far
}

// ErrWrong means that writes were lost or doubled, or are there unasked: the report has their numbers.
var ErrWrong = errors.New("writes were lost or doubled, or are there unasked")

// ErrNotBack means that no write was acknowledged any more after a kill: the report's times end with the load.
var ErrNotBack = errors.New("writes did not come back")

// ErrNotCompared means that the writes could not be read back: whether some are lost, doubled or there unasked is not known.
var ErrNotCompared = errors.New("the writes could not be read back")

// Failover takes the master away repeatedly under a constant load, and measures how long no write is acknowledged. At the
// end it looks for lost, doubled and unasked writes. With ErrWrong or ErrNotBack the report is complete, unless the error is
// ErrNotCompared too.
func Failover(ctx context.Context, cfg FailoverConfig) (report *FailoverReport, err error) {
	f := &failover{FailoverConfig: cfg, measured: newMeasured(""), steps: cfg.Progress.Plan(cfg.Kills)}
	defer f.steps.End()
	f.steps.Begin("starting")
	if cfg.Orchestrator != "" {
		client, listErr := f.At(cfg.Orchestrator, nil)
		if listErr != nil {
			return nil, listErr
		}
		f.Client = *client
		return f.run(ctx)
	}
	stop, err := f.start(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	return f.run(ctx)
}

// start starts a system. The returned function stops the system and removes its data.
func (f *failover) start(ctx context.Context) (stop func() error, err error) {
	protection := defaultStages
	if f.Unguarded {
		protection = noStages
	}
	f.system, stop, err = f.startOwn(ctx, system.Config{
		Name: "failover", Processes: f.Processes, Slaves: f.Slaves, Admission: protection.settings(),
		// The number of slaves stays constant: the first tick is after the run.
		Scale: system.Scale{Settings: scale.Settings{Policy: "reads", Min: f.Slaves, Max: f.Slaves, ReadsPerSlave: 20}, Period: 24 * time.Hour},
	})
	return stop, err
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
	opened, over := f.watch(watching)
	select { // The stream does not repeat earlier events.
	case <-opened:
	case <-time.After(failoverWhole):
		return nil, fmt.Errorf("no stream of events within %v", failoverWhole)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	var kills []kill
	for i := range f.Kills {
		f.steps.Begin("kill %d of %d", i+1, f.Kills)
		if !wait.For(ctx, failoverRest/5+rand.N(failoverRest)) { //nolint:gosec // no secret.
			return nil, context.Cause(ctx)
		}
		k, err := f.kill(ctx)
		if err != nil {
			return nil, fmt.Errorf("kill %d: %w", i+1, err)
		}
		kills = append(kills, k)
		f.steps.Done()
	}
	if !wait.For(ctx, failoverRest) || !load.await(ctx, kills[len(kills)-1].whole) {
		return nil, context.Cause(ctx)
	}
	ended := time.Now()
	load.end()
	unwatch()
	<-over
	f.steps.Begin("looking for lost writes")
	report := f.report(kills, f.changes, ended)
	failed := load.compare(ctx, report)
	return report, errors.Join(failed, report.wrong())
}

// kill is one removal of a master.
type kill struct {
	pid       int
	at, whole time.Time
}

// serves reports whether a change is that the new master serves.
func (k kill) serves(c change) bool {
	return c.Role == "master" && c.Change == "serving" && c.PID != k.pid
}

// kill takes the master away, waits until the system is complete, and then for the event of that, see hear.
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
			return k, f.hear(ctx, k)
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
	case FailoverStuck:
		return failpoint.Arm(ctx, master.PID, failpoint.MasterBeforeCommit, failpoint.Pause)
	case FailoverSpin:
		return failpoint.Arm(ctx, master.PID, failpoint.MasterBeforeCommit, failpoint.Spin)
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
