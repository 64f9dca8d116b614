package fault_test

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/testkit/sqlgen"
	"rideshare/internal/testkit/testenv"
)

const (
	// anyForEnv names the variable for how long generated SQL runs under faults, as a Go duration.
	anyForEnv  = "RIDESHARE_ANYSQL_FOR"
	anyFor     = 20 * time.Second
	anyClients = 3
	// endless is a statement that only a limit ends.
	endless = "WITH RECURSIVE x(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM x) SELECT count(*) FROM x"
)

// anyWrite is one operation of the generated SQL and what its client knows about it. The operation's last statement
// inserts a row with the operation's name.
type anyWrite struct {
	name     string
	atomic   bool
	answered bool
	kept     bool   // the answer says that the last statement was executed
	accepted string // the id under which the operation was accepted into the queue
	maybe    bool   // some try had an unknown outcome
}

// compare checks how often the database has the row of the write.
func (w *anyWrite) compare(found int) error {
	least, most := 0, 1
	switch {
	case w.answered && w.kept:
		least = 1
	case w.answered || w.accepted == "" && !w.maybe:
		most = 0
	}
	if found < least || found > most {
		return fmt.Errorf("write %s was done %d times, want %d to %d: %+v", w.name, found, least, most, *w)
	}
	return nil
}

// anySQL is clients that send generated SQL, some of it slow, some of it queued.
type anySQL struct {
	*trial

	writes []*anyWrite // guarded by trial.mu
}

// run sends operations until ctx ends.
func (a *anySQL) run(ctx context.Context, client int) {
	seed := a.seed + uint64(client)
	rnd := rand.New(rand.NewPCG(seed, 7))
	gen := sqlgen.New(seed, true)
	n := 0
	for o := gen.Begin(); ctx.Err() == nil; o = gen.Operation() {
		n++
		w := &anyWrite{name: fmt.Sprintf("any-%d-%d", client, n), atomic: o.Atomic}
		var statements []any
		for i := range o.Statements {
			statements = append(statements, onTheWire(&o.Statements[i].Statement))
		}
		if rnd.IntN(60) == 0 {
			statements = append(statements, endless)
		}
		statements = append(statements, []any{"INSERT INTO marks(name) VALUES(?)", w.name})
		a.mu.Lock()
		a.writes = append(a.writes, w)
		a.mu.Unlock()
		a.write(ctx, w, statements, rnd)
		_ = pause(ctx, time.Duration(rnd.Int64N(int64(60*time.Millisecond))))
	}
}

// onTheWire returns the JSON form of a statement.
func onTheWire(s *dbaas.Statement) any {
	switch {
	case len(s.Named) > 0:
		named := map[string]any{}
		for _, v := range s.Named {
			named[v.Name] = jsonValue(v.Value)
		}
		return []any{s.SQL, named}
	case len(s.Args) > 0:
		out := []any{s.SQL}
		for _, v := range s.Args {
			out = append(out, jsonValue(v))
		}
		return out
	default:
		return s.SQL
	}
}

func jsonValue(v dbaas.Value) any {
	switch v.Kind {
	case dbaas.KindInteger:
		return v.Int
	case dbaas.KindFloat:
		if math.IsInf(v.Float, 0) {
			return math.MaxFloat64 // JSON has no infinity.
		}
		return v.Float
	case dbaas.KindText:
		return v.Text
	case dbaas.KindBlob:
		return "x'" + hex.EncodeToString(v.Blob) + "'"
	case dbaas.KindNull:
	}
	return nil
}

// write sends one write, repeats it with its key while its outcome is not known, and may give up.
func (a *anySQL) write(ctx context.Context, w *anyWrite, statements []any, rnd *rand.Rand) {
	path := "/db/execute?timings"
	if w.atomic {
		path += "&transaction"
	}
	if rnd.IntN(6) == 0 {
		path += "&queue"
	}
	for patience := rnd.IntN(8); ; patience-- {
		// A call that has begun gets its answer, even when the clients are told to end.
		got, err := a.sys.post(context.WithoutCancel(ctx), a.fail, path, statements, "Idempotency-Key", w.name)
		if err == nil && a.ended(w, &got, len(statements)) {
			return
		}
		w.maybe = w.maybe || err != nil || got.status != http.StatusServiceUnavailable
		if patience <= 0 || ctx.Err() != nil {
			return
		}
		_ = pause(ctx, retryAfter)
	}
}

// ended records an answer and reports whether it is final.
func (a *anySQL) ended(w *anyWrite, got *answer, statements int) bool {
	switch got.status {
	case http.StatusOK:
		var all struct {
			results
			Sequence int64  `json:"sequence_number"` // of a queued write
			ID       string `json:"op_id"`
		}
		if err := json.Unmarshal(got.body, &all); err != nil {
			a.fail(fmt.Errorf("write %s: got %.200s: %w", w.name, got.body, err))
		}
		if all.Sequence != 0 {
			w.accepted = all.ID
			return true
		}
		w.answered = true
		w.kept = len(all.Results) == statements && all.Results[statements-1].Error == ""
		return true
	case http.StatusServiceUnavailable, http.StatusGatewayTimeout, http.StatusConflict:
		return false
	default:
		a.fail(fmt.Errorf("write %s: got %d %.200s, want 200, 409, 503 or 504", w.name, got.status, got.body))
		return true
	}
}

// verdict waits until no accepted write is pending, and then compares the database with the answers that the clients
// got.
func (a *anySQL) verdict(t *testing.T) error {
	t.Helper()
	a.end()
	answered, accepted := 0, 0
	for _, w := range a.writes {
		if w.answered {
			answered++
		}
		if w.accepted != "" {
			accepted++
			a.awaitEnd(t, w)
		}
	}
	t.Logf("seed %d: %d writes, %d answered, %d accepted", a.seed, len(a.writes), answered, accepted)
	found := map[string]int{}
	for _, row := range a.sys.rows(t, "SELECT name FROM marks") {
		var name string
		if err := json.Unmarshal(row[0], &name); err != nil {
			return err
		}
		found[name]++
	}
	wrong := a.wrong
	for _, w := range a.writes {
		if err := w.compare(found[w.name]); err != nil {
			wrong = append(wrong, err)
		}
	}
	if answered < len(a.writes)/10 {
		wrong = append(wrong, errors.New("hardly a write was answered: the run proves nothing"))
	}
	return errors.Join(wrong[:min(len(wrong), 5)]...)
}

// awaitEnd waits until an accepted write is applied or failed.
func (a *anySQL) awaitEnd(t *testing.T, w *anyWrite) {
	t.Helper()
	testenv.Eventually(t, healLimit, func() error {
		state, err := get[struct{ Status string }](a.sys, "/api/v1/db/writes/"+w.accepted)
		if err == nil && state.Status == "pending" {
			err = fmt.Errorf("accepted write %s is still pending", w.name)
		}
		return err
	})
}

// keptReplicas fails the test if any worker, even one that has died since, discarded its replica because an entry did
// not fit or because its rows differed from persdb's.
func (s *system) keptReplicas(t *testing.T) {
	t.Helper()
	text, err := os.ReadFile(s.logFile())
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, `"msg":"replica discarded"`) {
			t.Errorf("a replica did not follow: %.500s", line)
		}
	}
}

// Whatever SQL clients send while processes die, no write is lost, doubled or done after a refusal, no accepted write
// stays pending, slow statements do not block others for good, and every replica equals persdb.
func TestSystem_AnySQLUnderFaults_ReplicasEqual(t *testing.T) {
	t.Parallel()
	lasts := anyFor
	if s := os.Getenv(anyForEnv); s != "" {
		var err error
		if lasts, err = time.ParseDuration(s); err != nil {
			t.Fatalf("%s: %v", anyForEnv, err)
		}
	}
	seed := nemesisSeed(t)
	t.Logf("seed %d (run again with %s)", seed, nemesisEnv)
	sys := startSystem(t, startServices(t), 2, hanging)
	sys.exec(t, "CREATE TABLE marks(id INTEGER PRIMARY KEY, name TEXT NOT NULL)")
	ctx, cancel := context.WithCancel(context.Background())
	a := &anySQL{trial: &trial{sys: sys, seed: seed, stop: cancel, all: sync.WaitGroup{}}}
	t.Cleanup(a.end)
	for i := range anyClients {
		a.all.Go(func() { a.run(ctx, i) })
	}
	harass(t, a.trial, lasts, attacks)
	sys.awaitWhole(t, 2)
	if err := a.verdict(t); err != nil {
		t.Errorf("seed %d: %v", seed, err)
	}
	sys.checkReplicas(t, 2)
	report, err := sys.try(t.Context(), http.MethodPost, "/api/v1/check", nil)
	var check struct{ OK bool }
	if err = errors.Join(err, json.Unmarshal(report.body, &check)); err != nil || !check.OK {
		t.Errorf("the system's own check: got %d %.1000s (%v), want ok", report.status, report.body, err)
	}
	sys.stop(t)
	sys.keptReplicas(t)
	sys.checkLog(t)
}
