package load_test

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"rideshare/bench/ledger"
	"rideshare/bench/load"
	"rideshare/bench/loadgen"
	"rideshare/internal/instances"
	"rideshare/internal/progressbar"
	"rideshare/internal/testkit/testenv"
)

// config is a run that lasts until it is ended.
func config(t *testing.T, targets load.Targets, mix string) load.Config {
	t.Helper()
	parsed, err := load.ParseMix(mix)
	if err != nil {
		t.Fatal(err)
	}
	return load.Config{
		Targets: targets, Mix: parsed, Loop: loadgen.Open, Plan: loadgen.Plan{{Name: "steady", Duration: time.Hour, From: 400, To: 400}},
		MaxInFlight: 64, Timeout: time.Minute, Users: 5, Seed: 1, Progress: progressbar.Output{Writer: new(bytes.Buffer)},
	}
}

const everything = "create-user=5,create-ride=25,join=20,listing=15,ride=15,db-read=10,db-write=10"

// run runs a load that ends early, once the system has served enough.
func run(t *testing.T, s *system, cfg load.Config) *load.Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	go func() {
		defer cancel()
		select {
		case <-s.enough:
		case <-ctx.Done():
		}
	}()
	return runFor(t, ctx, cfg)
}

func runFor(t *testing.T, ctx context.Context, cfg load.Config) *load.Result { //nolint:revive // t first, as everywhere in tests.
	t.Helper()
	result, err := load.Run(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// A correct system passes, with every kind of request sent.
func TestRun_RightSystem_Passes(t *testing.T) {
	s, targets := newSystem(t, fault{})
	cfg := config(t, targets, everything)
	cfg.As = "ann"
	r := run(t, s, cfg)
	if s.as != "ann" {
		t.Errorf("got a write of user %q, want ann", s.as)
	}
	if !r.Check.OK || r.Load.All.Failed != 0 || len(r.Load.Kinds) != 7 || r.Load.All.Count < enoughServed/2 {
		t.Errorf("got %+v of %+v, want no complaint and 7 kinds", r.Check, r.Load.Kinds)
	}
	for _, what := range []string{"user", "ride", "join", "write"} {
		if r.Check.Acknowledged[what] == 0 {
			t.Errorf("nothing acknowledged of kind %s: %v", what, r.Check.Acknowledged)
		}
	}
	i := slices.IndexFunc(r.Samples, func(s load.Sample) bool { return s.Problem == "" })
	if i < 0 || r.Samples[i].Ready != 1 || r.Samples[i].Slaves != 2 || r.Samples[i].Desired != 2 || r.Samples[i].Lag != 3 || r.Samples[i].Masters != 1 {
		t.Errorf("samples: got %+v, want one of 1 ready slave of 2 with lag 3", r.Samples)
	}
}

// A system whose first addresses are away is measured at the others.
func TestRun_FirstAddressesAway_Passes(t *testing.T) {
	t.Cleanup(instances.SetProbeTime(30 * time.Second))
	s, targets := newSystem(t, fault{})
	for _, target := range []*string{&targets.Users, &targets.Rides, &targets.Orchestrator} {
		*target = "http://" + testenv.FreeAddress(t) + "," + *target
	}
	r := run(t, s, config(t, targets, everything))
	if !r.Check.OK || r.Load.All.Failed != 0 || r.Check.Acknowledged["write"] == 0 {
		t.Errorf("got %+v of %+v, want no complaint", r.Check, r.Load.All)
	}
}

// Each violation by a system is found, and reported under its own name.
func TestRun_WrongSystem_IsFound(t *testing.T) {
	for name, test := range map[string]struct {
		fault fault
		found func(ledger.Check) int
	}{
		"RideLost":          {fault{route: "POST /api/v1/rides", lose: true}, func(c ledger.Check) int { return c.Missing.Count }},
		"RideDoubled":       {fault{route: "POST /api/v1/rides", twice: true}, func(c ledger.Check) int { return c.Doubled.Count }},
		"RideRefusedButIn":  {fault{route: "POST /api/v1/rides", status: 503}, func(c ledger.Check) int { return c.Unasked.Count }},
		"JoinLost":          {fault{route: "POST /api/v1/rides/{id}", lose: true}, func(c ledger.Check) int { return c.Missing.Count }},
		"JoinDoubled":       {fault{route: "POST /api/v1/rides/{id}", twice: true}, func(c ledger.Check) int { return c.Doubled.Count }},
		"JoinRefusedButIn":  {fault{route: "POST /api/v1/rides/{id}", status: 503}, func(c ledger.Check) int { return c.Unasked.Count }},
		"WriteLost":         {fault{route: "POST /api/v1/db/write", lose: true}, func(c ledger.Check) int { return c.Missing.Count }},
		"WriteDoubled":      {fault{route: "POST /api/v1/db/write", twice: true}, func(c ledger.Check) int { return c.Doubled.Count }},
		"UserLost":          {fault{route: "GET /api/v1/users", lose: true}, func(c ledger.Check) int { return c.Missing.Count }},
		"ListingWithout":    {fault{route: "GET /api/v1/rides", lose: true}, func(c ledger.Check) int { return c.Wrong.Count }},
		"RideReadWrong":     {fault{route: "GET /api/v1/rides/{id}"}, func(c ledger.Check) int { return c.Wrong.Count }},
		"UserReadWrong":     {fault{route: "POST /api/v1/db/read"}, func(c ledger.Check) int { return c.Wrong.Count }},
		"RequestCalledBad":  {fault{route: "POST /api/v1/db/write", status: 400}, func(c ledger.Check) int { return c.Wrong.Count }},
		"UserRefusedButIn":  {fault{route: "PUT /api/v1/users", status: 503}, func(c ledger.Check) int { return c.Unasked.Count }},
		"JoinMissingInRead": {fault{route: "POST /api/v1/rides/{id}", lose: true}, func(c ledger.Check) int { return c.Wrong.Count }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, targets := newSystem(t, test.fault)
			cfg := config(t, targets, everything)
			cfg.Users = 3 // the preparation is spared.
			if r := run(t, s, cfg); r.Check.OK || test.found(r.Check) == 0 {
				t.Errorf("got %+v, want it found", r.Check)
			}
		})
	}
}

// A write whose answer is lost is neither missing nor unasked for: it is counted separately.
func TestRun_AnswersLost_OutcomeIsUnknown(t *testing.T) {
	s, targets := newSystem(t, fault{route: "POST /api/v1/db/write", status: 504})
	r := run(t, s, config(t, targets, everything))
	if !r.Check.OK || r.Check.UnknownThere == 0 || r.Check.UnknownMissing != 0 || int64(r.Check.UnknownThere) != r.Load.All.Failures["504"] {
		t.Errorf("got %+v, want each 504 as an unknown write that is there", r.Check)
	}
	s, targets = newSystem(t, fault{route: "POST /api/v1/db/write", status: 504, lose: true})
	r = run(t, s, config(t, targets, everything))
	if !r.Check.OK || r.Check.UnknownMissing == 0 {
		t.Errorf("got %+v, want each 504 as an unknown write that is not there", r.Check)
	}
}

// A refused request is a failure that is counted by its status, and no more: a closed loop's
// client waits as long as the answer says.
func TestRun_Refused_CountsAndWaits(t *testing.T) {
	_, targets := newSystem(t, fault{route: "GET /api/v1/rides", status: 503})
	cfg := config(t, targets, "listing=100")
	cfg.Loop, cfg.Plan = loadgen.Closed, loadgen.Plan{{Name: "one", Duration: 2500 * time.Millisecond, From: 1, To: 1}}
	r := runFor(t, t.Context(), cfg)
	// Three are spared, then every second one is refused, with a second to wait.
	if got := r.Load.All.Failures["503"]; !r.Check.OK || got < min(1, r.Load.All.Count-spare) || got > 3 {
		t.Errorf("got %d refusals and %+v, want at most 3 in 2.5 s", got, r.Check)
	}
}

// Ending a run early still checks what was written by then.
func TestRun_Ended_StillChecks(t *testing.T) {
	s, targets := newSystem(t, fault{})
	if r := run(t, s, config(t, targets, everything)); !r.Ended || !r.Check.OK || r.Check.Acknowledged["write"] == 0 {
		t.Errorf("got ended %v, %+v, want a check of what was written", r.Ended, r.Check)
	}
}

// What a run wrote is removed when that is wanted.
func TestRun_Clean_RemovesEverything(t *testing.T) {
	s, targets := newSystem(t, fault{})
	cfg := config(t, targets, everything)
	cfg.Clean = true
	run(t, s, cfg)
	if len(s.users)+len(s.writes) != 0 {
		t.Errorf("left behind: %v, %v", s.users, s.writes)
	}
}

// A target that is not there is named before anything is sent.
func TestRun_WrongAddress_IsTold(t *testing.T) {
	_, targets := newSystem(t, fault{})
	targets.Orchestrator = "http://127.0.0.1:1"
	_, err := load.Run(t.Context(), config(t, targets, everything))
	if err == nil || !strings.Contains(err.Error(), "--orchestrator") || !strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Errorf("got %v, want the flag and the address", err)
	}
}

// told ends the run once the progress has all that is wanted.
type told struct {
	bytes.Buffer

	want []string
	end  func()
}

func (o *told) Write(p []byte) (int, error) {
	n, err := o.Buffer.Write(p)
	if !slices.ContainsFunc(o.want, func(w string) bool { return !strings.Contains(o.String(), w) }) {
		o.end()
	}
	return n, err
}

// The progress shows phase, rate, errors, slaves and the time left, on a terminal as a bar.
func TestRun_Progress(t *testing.T) {
	_, targets := newSystem(t, fault{})
	cfg := config(t, targets, everything)
	const columns = 90 // enough for a bar beside the figures
	cfg.Plan[0].Duration = 12 * time.Second
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := &told{want: []string{"\r", "[#", "steady", "/s", "errors 0", "slaves 1 of 2", "lag 3", "left"}, end: cancel}
	cfg.Progress = progressbar.Output{Writer: out, Columns: func() int { return columns }}
	runFor(t, ctx, cfg)
	for _, want := range out.want {
		if !strings.Contains(out.String(), want) {
			t.Errorf("progress %q has no %q", out, want)
		}
	}
	for line := range strings.SplitSeq(out.String(), "\r\x1b[K") {
		line, _, _ = strings.Cut(line, "\n")
		if len(line) >= columns {
			t.Errorf("%q has %d columns, want fewer than the terminal's %d", line, len(line), columns)
		}
	}
}

// The reports hold the figures, whatever was found.
func TestResult_Reports(t *testing.T) {
	s, targets := newSystem(t, fault{route: "POST /api/v1/db/write", lose: true})
	r := run(t, s, config(t, targets, everything))
	var text, page bytes.Buffer
	if err := r.Print(&text); err != nil {
		t.Fatal(err)
	}
	if err := r.HTML(&page); err != nil {
		t.Fatal(err)
	}
	encoded, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	for name, got := range map[string]struct{ text, want string }{
		"TextKind":   {text.String(), "create-ride"},
		"TextFailed": {text.String(), "FAILED  acknowledged and missing: "},
		"TextSlaves": {text.String(), "slaves: 1 at most, 1 at the end"},
		"PageKind":   {page.String(), "<td>create-ride</td>"},
		"PageFailed": {page.String(), "was acknowledged and is not there"},
		"JSON":       {string(encoded), `"acknowledged":{"join":`},
		"JSONRun":    {string(encoded), `"ready":1`},
	} {
		if !strings.Contains(got.text, got.want) {
			t.Errorf("%s: no %q in %.3000s", name, got.want, got.text)
		}
	}
}

// A long run is drawn with few enough points to be seen: each stands for several seconds, and says so.
func TestResult_HTML_LongRun(t *testing.T) {
	r := &load.Result{}
	for i := range 500 {
		r.Load.Seconds = append(r.Load.Seconds, loadgen.Second{At: time.Duration(i) * time.Second, Took: time.Second, All: loadgen.Figures{Count: int64(i)}})
	}
	r.Load.Plan = loadgen.Plan{{Name: "steady", Duration: 500 * time.Second, From: 1, To: 1}}
	var page bytes.Buffer
	if err := r.HTML(&page); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(page.String(), "in each 3 seconds") {
		t.Error("the page does not say what a point stands for")
	}
	lines := strings.Split(page.String(), `"points":[[`)
	for _, line := range lines[1:] {
		shape, _, _ := strings.Cut(line, "]]")
		if n := strings.Count(shape, "],["); n >= 200 {
			t.Errorf("a line has %d points", n+1)
		}
	}
	if len(lines) < 4 {
		t.Errorf("got %d lines, want those of the rate and of the latencies", len(lines)-1)
	}
}

// A mix adds up to all requests, of kinds that there are.
func TestParseMix(t *testing.T) {
	mix, err := load.ParseMix(" db-read=90, db-write=10")
	if err != nil || mix["db-read"] != 90 || mix["db-write"] != 10 {
		t.Errorf("got %v, %v, want 90 and 10", mix, err)
	}
	if _, err = load.ParseMix(load.DefaultMix); err != nil {
		t.Errorf("the default: %v", err)
	}
	for _, wrong := range []string{"", "db-read", "db-read=99", "db-read=110,db-write=-10", "read=100", "db-read=50,db-read=50"} {
		if mix, err = load.ParseMix(wrong); err == nil {
			t.Errorf("%q: got %v, want an error", wrong, mix)
		}
	}
}
