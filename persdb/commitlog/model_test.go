package commitlog_test

import (
	"flag"
	"fmt"
	"maps"
	"testing"
	"time"

	"pgregory.net/rapid"

	"rideshare/internal/dbaas"
	"rideshare/internal/testkit/storetest"
	"rideshare/internal/wire"
	"rideshare/persdb/commitlog"
)

// model is the naive store: a map of rows, a map of answers.
type model struct {
	rows  map[int]int
	known map[int]answer
	seq   dbaas.Seq
}

// answer is the result of the first run of an operation.
type answer struct {
	kind string
	text string
	seq  dbaas.Seq
}

// step is one statement on table kv(k, v CHECK(v>=0)).
type step struct {
	verb string
	k, v int
}

func (s step) sql() string {
	switch s.verb {
	case "insert":
		return fmt.Sprintf("INSERT INTO kv VALUES(%d,%d)", s.k, s.v)
	case "replace":
		return fmt.Sprintf("REPLACE INTO kv VALUES(%d,%d)", s.k, s.v)
	case "add":
		return fmt.Sprintf("UPDATE kv SET v=v+%d WHERE k=%d", s.v-5, s.k)
	case "addAll":
		return fmt.Sprintf("UPDATE kv SET v=v+%d", s.v-5)
	case "delete":
		return fmt.Sprintf("DELETE FROM kv WHERE k>=%d", s.k)
	default:
		return "INSERT INTO missing VALUES(1)"
	}
}

// apply changes rows as SQLite does and returns the statement's answer.
func (s step) apply(rows map[int]int) string {
	n := 0
	switch s.verb {
	case "insert":
		if _, ok := rows[s.k]; ok {
			return "constraint"
		}
		rows[s.k], n = s.v, 1
	case "replace":
		rows[s.k], n = s.v, 1
	case "add", "addAll":
		after := maps.Clone(rows)
		for k, v := range rows {
			if s.verb == "addAll" || k == s.k {
				if after[k] = v + s.v - 5; after[k] < 0 {
					return "constraint"
				}
				n++
			}
		}
		maps.Copy(rows, after)
	case "delete":
		for k := range rows {
			if k >= s.k {
				delete(rows, k)
				n++
			}
		}
	default:
		return "invalid"
	}
	return fmt.Sprint(n)
}

// request is one operation as a client sends it.
type request struct {
	id     int
	atomic bool
	late   bool
	steps  []step
}

func (r request) operation() dbaas.Operation {
	o := dbaas.Operation{ID: storetest.ID(r.id), Atomic: r.atomic}
	for _, s := range r.steps {
		o.Statements = append(o.Statements, dbaas.Statement{SQL: s.sql()})
	}
	o.Fingerprint = wire.FingerprintOf(o.Atomic, o.Statements)
	if r.late {
		o.Deadline = time.Now().Add(-time.Second)
	}
	return o
}

// kind identifies the content of a request: two requests with one id and the same kind are the same request.
func (r request) kind() string {
	text := fmt.Sprint(r.atomic)
	for _, s := range r.steps {
		text += s.sql()
	}
	return text
}

// commit runs a batch on the model and returns the answers.
func (m *model) commit(batch []request) []string {
	var out []string
	ran := false
	for _, r := range batch {
		if a, ok := m.known[r.id]; ok {
			if a.kind != r.kind() {
				out = append(out, "refused mismatch")
			} else {
				out = append(out, a.text)
			}
			continue
		}
		if r.late {
			out = append(out, "refused unavailable")
			continue
		}
		if !ran {
			ran = true
			m.seq++
		}
		a := answer{kind: r.kind(), seq: m.seq, text: fmt.Sprintf("%d:", m.seq)}
		before := maps.Clone(m.rows)
		for _, s := range r.steps {
			got := s.apply(m.rows)
			a.text += " " + got
			if r.atomic && (got == "constraint" || got == "invalid") {
				if len(r.steps) > 1 {
					m.rows = before
				}
				break
			}
		}
		m.known[r.id] = a
		out = append(out, a.text)
	}
	return out
}

// answerOf writes a result as the model does.
func answerOf(r dbaas.OperationResult) string {
	if r.Code != dbaas.CodeOK {
		return "refused " + string(r.Code)
	}
	text := fmt.Sprintf("%d:", r.Seq)
	for _, s := range r.Statements {
		if s.Code != dbaas.CodeOK {
			text += " " + string(s.Code)
		} else {
			text += fmt.Sprintf(" %d", s.RowsAffected)
		}
	}
	return text
}

func drawBatch(t *rapid.T) []request {
	steps := rapid.Custom(func(t *rapid.T) step {
		verb := rapid.SampledFrom([]string{"insert", "insert", "replace", "add", "addAll", "delete", "missing"}).Draw(t, "verb")
		return step{verb, rapid.IntRange(0, 5).Draw(t, "k"), rapid.IntRange(0, 9).Draw(t, "v")}
	})
	requests := rapid.Custom(func(t *rapid.T) request {
		return request{
			id: rapid.IntRange(0, 25).Draw(t, "id"), atomic: rapid.Bool().Draw(t, "atomic"),
			late: rapid.IntRange(0, 9).Draw(t, "late") == 0, steps: rapid.SliceOfN(steps, 1, 3).Draw(t, "steps"),
		}
	})
	return rapid.SliceOfN(requests, 1, 6).Draw(t, "batch")
}

// Any sequence of batches, with ids repeated in the same or another form, late operations, redelivered batches, new
// masters and restarts, gives the answers and rows of the naive model; a replica that follows has the same rows.
func TestStore_Commit_LikeNaiveModel(t *testing.T) {
	checks(t, "25")
	rapid.Check(t, func(rt *rapid.T) {
		cfg := commitlog.Config{Dir: t.TempDir()}
		s := reopen(t, cfg)
		epoch := storetest.Claim(t, s)
		storetest.Commit(t, s, epoch, op(1000, "CREATE TABLE kv(k INTEGER PRIMARY KEY, v INTEGER CHECK(v>=0))"))
		m := &model{rows: map[int]int{}, known: map[int]answer{}, seq: 1}
		replica := storetest.NewReplica(t, s)
		var last []request
		for range rapid.IntRange(1, 12).Draw(rt, "batches") {
			batch := last
			switch rapid.SampledFrom([]string{"new", "new", "new", "again", "master", "restart"}).Draw(rt, "what") {
			case "again":
			case "master":
				epoch = storetest.Claim(t, s)
			case "restart":
				closeStore(t, s)
				s = reopen(t, cfg)
			default:
				batch = drawBatch(rt)
			}
			var ops []dbaas.Operation
			for _, r := range batch {
				ops = append(ops, r.operation())
			}
			got, want := storetest.Commit(t, s, epoch, ops...), m.commit(batch)
			for i := range want {
				if text := answerOf(got.Results[i]); text != want[i] {
					rt.Errorf("operation %+v: got %q, want %q", batch[i], text, want[i])
				}
			}
			last = batch
		}
		replica.Follow(t, s)
		if n := count(t, replica, "kv"); n != len(m.rows) {
			rt.Errorf("got %d rows, want %d", n, len(m.rows))
		}
		for k, v := range m.rows {
			if n := count(t, replica, fmt.Sprintf("kv WHERE k=%d AND v=%d", k, v)); n != 1 {
				rt.Errorf("row %d is not %d", k, v)
			}
		}
		closeStore(t, s)
	})
}

// checks sets how many sequences are tried, unless the command line does: each sequence opens real files and waits for
// the disk.
func checks(t *testing.T, n string) {
	t.Helper()
	f := flag.Lookup("rapid.checks")
	if f.Value.String() != f.DefValue {
		return
	}
	if err := f.Value.Set(n); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Value.Set(f.DefValue) })
}
