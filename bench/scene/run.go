// Package scene runs a load scene: it sends load, kills parts during the load, checks the result, and writes a report. The
// examples' load folders define what to send and what must be there at the end.
package scene

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"time"

	"rideshare/bench/api"
	"rideshare/bench/ledger"
	"rideshare/bench/loadgen"
	"rideshare/bench/report"
	"rideshare/internal/wait"
)

// Settings are the settings of every scene.
type Settings struct {
	Database   string // URL of the orchestrator
	JSON, HTML string // files to write; "" for none
	// BrokerKill and BrokerStart are shell commands; without them the broker is left alone.
	BrokerKill, BrokerStart string
	// Admission is a merge patch of the protection from overload, for the time of the scene.
	Admission string
	Scale     float64 // of the number of requests
	// AuthFile is a file of credentials, and Authorization the header for it, which is sent to the orchestrator; "" for none.
	AuthFile, Authorization string
	// Stdout gets the result, and Stderr the progress.
	Stdout, Stderr io.Writer
}

// Flags adds the settings to a command line.
func (s *Settings) Flags(set *flag.FlagSet) {
	set.StringVar(&s.Database, "database", "http://127.0.0.1:8083", "`URL` of the orchestrator")
	set.StringVar(&s.AuthFile, "auth-file", "", "`file` whose first line 'bearer TOKEN' or 'basic USER:PASSWORD' is sent to the orchestrator (default none)")
	set.StringVar(&s.JSON, "json", "", "write the result to this `file` as JSON")
	set.StringVar(&s.HTML, "html", "", "write the result to this `file` as an HTML page")
	set.StringVar(&s.BrokerKill, "broker-kill", "", "`command` that kills the broker; without it the broker is left alone")
	set.StringVar(&s.BrokerStart, "broker-start", "", "`command` that starts the broker again")
	set.StringVar(&s.Admission, "admission", "", "merge patch in `JSON` of /api/v1/admission during the scene; the old settings are put back")
	set.Float64Var(&s.Scale, "scale", 1, "factor of the number of requests")
}

// Scaled returns n times the scale, and at least 1.
func (s *Settings) Scaled(n int) int { return max(1, int(float64(n)*s.Scale)) }

// Event is a part that was killed during a load.
type Event struct {
	Load string        `json:"load"`
	At   time.Duration `json:"at_ns"` // since the start of the load
	What string        `json:"what"`
}

// Load is one load of a scene.
type Load struct {
	Name string          `json:"name"`
	Sum  loadgen.Summary `json:"load"`
}

// Result is what a scene has found.
type Result struct {
	Scene  string  `json:"scene"`
	Scale  float64 `json:"scale"`
	Ended  bool    `json:"ended_early"`
	Loads  []Load  `json:"loads"`
	Events []Event `json:"events"`
	// Notes are findings that are neither right nor wrong, one sentence each.
	Notes []string     `json:"notes"`
	Check ledger.Check `json:"check"`
}

// Run is one scene that runs. Its methods are safe for concurrent use.
type Run struct {
	Settings

	API *api.Client
	// Protection changes the orchestrator's protection from overload. The settings are restored after the scene.
	Protection api.Protection

	children []*exec.Cmd
	stop     context.CancelFunc // ends the load

	mu     sync.Mutex // guards result
	result Result
}

// Change changes the result of the run.
func (r *Run) Change(change func(*Result)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.result)
}

// Wrong adds a finding: the scene has failed.
func (r *Run) Wrong(format string, args ...any) {
	r.Change(func(res *Result) { res.Check.Wrong.Add(format, args...) })
}

// Note adds a sentence to the result.
func (r *Run) Note(format string, args ...any) {
	r.Change(func(res *Result) { res.Notes = append(res.Notes, fmt.Sprintf(format, args...)) })
}

// Fail says that the scene cannot go on, and ends its load. What was written is still checked. If ctx was cancelled, Fail
// does nothing: err only follows from that.
func (r *Run) Fail(ctx context.Context, err error) {
	if errors.Is(ctx.Err(), context.Canceled) {
		return
	}
	r.problem(err)
	r.stop()
}

// problem adds a reason why the check is not complete.
func (r *Run) problem(err error) {
	r.Change(func(res *Result) { res.Check.Problem = strings.TrimPrefix(res.Check.Problem+"; "+err.Error(), "; ") })
}

// Play runs a scene and returns its exit code: 0 if nothing was wrong, else 1. play sends the load and checks it. If ctx
// ends, the load ends early, and the written data is still checked.
func Play(ctx context.Context, name string, s Settings, play func(context.Context, *Run)) int {
	transport := &http.Transport{MaxIdleConnsPerHost: 2048, DisableCompression: true, IdleConnTimeout: 30 * time.Second}
	defer transport.CloseIdleConnections()
	s.Database = strings.TrimSuffix(s.Database, "/")
	r := &Run{Settings: s, result: Result{Scene: name, Scale: s.Scale}}
	r.API = &api.Client{HTTP: &http.Client{Transport: transport}, Timeout: 30 * time.Second}
	r.Protection = api.Protection{Client: &api.Client{HTTP: r.API.HTTP, Timeout: r.API.Timeout, Authorization: s.Authorization}, URL: s.Database}
	defer r.end()
	err := r.whole(ctx, play)
	if err != nil {
		r.problem(err)
	}
	r.result.Ended = ctx.Err() != nil
	r.result.Check.Finish()
	err = errors.Join(r.result.print(s.Stdout), report.WriteJSON(s.JSON, r.result), report.WriteFile(s.HTML, r.result.page))
	if err != nil {
		_, _ = fmt.Fprintln(s.Stderr, err) // There is nowhere else to say it.
	}
	if err != nil || !r.result.Check.OK {
		return 1
	}
	return 0
}

// whole applies the admission patch, plays the scene, and checks the database. At the end it restores the settings.
func (r *Run) whole(ctx context.Context, play func(context.Context, *Run)) (err error) {
	always := context.WithoutCancel(ctx)
	defer func() { err = errors.Join(err, r.Protection.Restore(always)) }()
	if r.Admission != "" {
		var patch map[string]any
		if err = json.Unmarshal([]byte(r.Admission), &patch); err == nil {
			err = r.Protection.Patch(ctx, patch)
		}
		if err != nil {
			return fmt.Errorf("--admission: %w", err)
		}
	}
	ctx, r.stop = context.WithCancel(ctx)
	defer r.stop()
	play(ctx, r)
	return r.checkDatabase(always)
}

// Kills returns the kills of a load of some requests: of the master, a slave and the broker, after 20, 40 and 60 % of the
// answers.
func Kills(requests int) map[int64]string {
	n := int64(requests)
	return map[int64]string{max(1, n/5): "master", max(2, n*2/5): "slave", max(3, n*3/5): "broker"}
}

// Load sends one load of the scene. kills names parts, master, slave or broker, by the number of the answered request
// after which each is killed.
func (r *Run) Load(ctx context.Context, name string, cfg loadgen.Config, kills map[int64]string) {
	recorder, start := loadgen.NewRecorder(), time.Now()
	cfg.Recorder = recorder
	send := cfg.Call
	var beside sync.WaitGroup
	var mu sync.Mutex
	answered := int64(0)
	cfg.Call = func(ctx context.Context, request loadgen.Request) loadgen.Outcome {
		outcome := send(ctx, request)
		mu.Lock()
		defer mu.Unlock()
		answered++
		if what := kills[answered]; what != "" {
			beside.Go(func() { r.kill(ctx, name, what, start) })
		}
		return outcome
	}
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	beside.Go(func() { r.progress(watching, name, recorder) })
	sum, err := loadgen.Run(ctx, cfg)
	stop()
	beside.Wait()
	r.Change(func(res *Result) { res.Loads = append(res.Loads, Load{name, sum}) })
	if err != nil {
		r.Fail(ctx, err)
	}
}

// Last returns the figures of the last load that has ended.
func (r *Run) Last() (sum loadgen.Summary) {
	r.Change(func(res *Result) { sum = res.Loads[len(res.Loads)-1].Sum })
	return sum
}

// Stage sends a load of one stage, whose requests are numbered from 0. It returns, and notes, how many answers there were of
// each kind.
func (r *Run) Stage(ctx context.Context, stage loadgen.Stage, call func(context.Context, int) loadgen.Outcome, kills map[int64]string) map[string]int64 {
	counts := map[string]int64{}
	r.Load(ctx, stage.Name, loadgen.Config{
		Stages: []loadgen.Stage{stage},
		Call:   func(ctx context.Context, request loadgen.Request) loadgen.Outcome { return call(ctx, request.Number) },
	}, kills)
	r.Change(func(result *Result) {
		for _, kind := range result.Loads[len(result.Loads)-1].Sum.Kinds {
			counts[kind.Name] = kind.Count
		}
	})
	r.Note("%s: %v", stage.Name, counts)
	return counts
}

// Compare compares the fates of all writes of one kind with how often each is there. What was never sent is wrong, too.
func Compare[K comparable](r *Run, what string, sent *ledger.Writes[K], found map[K]int) {
	unsent := maps.Clone(found)
	r.Change(func(res *Result) {
		sent.Compare(&res.Check, what, unsent)
		for name := range unsent {
			res.Check.Unasked.Add("%s %v is there, and was never sent", what, name)
		}
	})
}

// progress writes a line every two seconds.
func (r *Run) progress(ctx context.Context, name string, recorder *loadgen.Recorder) {
	for wait.For(ctx, 2*time.Second) {
		at := recorder.Progress(time.Now())
		_, _ = fmt.Fprintf(r.Stderr, "%s: %d answered, %.0f/s, p99 %v, failed %d\n", // progress only
			name, at.Total.Count, at.Last.Rate(), at.Last.All.P99.Round(10*time.Microsecond), at.Total.Failed)
	}
}
