package ladder

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"rideshare/internal/dbaas"
	"rideshare/internal/replication"
	"rideshare/orchestrator/sqlbody"
)

// answer returns the right answer to a request.
func answer(r *request) []byte {
	if r.want == nil {
		return []byte("{}")
	}
	wanted := r.want()
	if len(wanted) == 1 {
		return wanted[0]
	}
	return append(append([]byte{'['}, bytes.Join(wanted, []byte{','})...), ']')
}

// A right answer passes, and each kind of wrong one is seen.
func TestRequest_Check(t *testing.T) {
	for _, name := range workOrder() {
		t.Run(name, func(t *testing.T) {
			w, err := newWork(name, 1000, 1)
			if err != nil {
				t.Fatal(err)
			}
			var r request
			for range 50 {
				w.next(w, &r)
				right := answer(&r)
				if err := r.check(200, right, true); err != nil {
					t.Fatalf("right answer: %v", err)
				}
				if r.check(503, right, true) == nil {
					t.Error("status 503 passes")
				}
				if r.path == "/db/query" && r.check(200, []byte(`{"results":[{"error":"interrupted"}]}`), false) == nil {
					t.Error("the error of a statement passes")
				}
				if r.want == nil {
					continue
				}
				other := bytes.Replace(right, []byte(`"k":"k0`), []byte(`"k":"k9`), 1)
				other = bytes.Replace(other, []byte(`"seats":4`), []byte(`"seats":3`), 1)
				other = bytes.Replace(other, []byte(`[[1000]]`), []byte(`[[999]]`), 1)
				if r.check(200, other, true) == nil {
					t.Errorf("wrong value passes: %s", other)
				}
				if r.check(200, append(right, ' '), true) == nil && len(r.want()) == 1 {
					t.Error("more than the answer passes")
				}
				if r.rows > 0 && r.check(200, []byte("[]"), false) == nil {
					t.Error("no rows pass")
				}
			}
		})
	}
}

// A work in the SQL form is right where its statement finds the rows of the table, and answers in the form of the API.
func TestRequest_CheckSQL(t *testing.T) {
	b, _ := startBare(t, 0)
	for i := range 2 * groupRows {
		row := fmt.Appendf(nil, `[["INSERT INTO bench VALUES (?, ?, ?)", %q, %d, "%s%d"]]`, appendKey(nil, i), i/groupRows, valueText, i)
		if _, err := b.execute(t.Context(), row); err != nil {
			t.Fatal(err)
		}
	}
	reader := <-b.readers
	defer func() { b.readers <- reader }()
	for name, next := range sqlWorks() {
		w, err := newWork(name, 2*groupRows, 1)
		if err != nil {
			t.Fatal(err)
		}
		var r request
		next(w, &r)
		statements, err := sqlbody.ParseSQL(r.body)
		if err != nil {
			t.Fatalf("%s: %s: %v", name, r.body, err)
		}
		right := []byte(`{"results":[{"last_insert_id":7,"rows_affected":1}]}`)
		if writes(name) {
			withPosition := []byte(`{"results":[{"last_insert_id":7,"rows_affected":1}],"seq":70}`) // as this system answers
			err = errors.Join(b.commit(statements), r.check(200, withPosition, true))
		} else {
			right, err = reader.AppendRead([]byte(`{"results":[`), &dbaas.Read{Format: dbaas.FormatArrays, Statements: statements}, replication.ReadGuard)
			right = append(right, `]}`...)
		}
		if err = errors.Join(err, r.check(200, right, true)); err != nil {
			t.Errorf("%s: right answer: %v", name, err)
		}
		for from, to := range map[string]string{`row `: `rows `, `"k0`: `"k9`, `affected":1`: `affected":0`} {
			if other := bytes.Replace(right, []byte(from), []byte(to), 1); !bytes.Equal(other, right) && r.check(200, other, true) == nil {
				t.Errorf("%s: wrong answer passes: %s", name, other)
			}
		}
		if r.check(200, []byte(`{"results":[{"error":"UNIQUE constraint failed"}]}`), false) == nil {
			t.Errorf("%s: the error of a statement passes", name)
		}
	}
	if got := number(t, b.writer, fmt.Sprintf("SELECT count(*) FROM bench WHERE g = %d AND k >= 'w'", writtenGroup)); got != 1 {
		t.Errorf("got %d written rows, want one", got)
	}
}

// Each work that is measured on a path in the SQL form is there in that form.
func TestSQLWorks_AreThoseOfThePlan(t *testing.T) {
	used := map[string]bool{}
	for _, c := range allMeasurements([]int{128, 1}) {
		if NeedsRqlite(c.Path) {
			used[c.Work] = true
		}
	}
	if got, want := slices.Sorted(maps.Keys(sqlWorks())), slices.Sorted(maps.Keys(used)); !slices.Equal(got, want) {
		t.Errorf("got works %q, want %q", got, want)
	}
}

// Reads that a cache is to answer ask for few rows.
func TestWork_Hits_FewKeys(t *testing.T) {
	for _, name := range []string{workHit, workRangeHit} {
		w, err := newWork(name, 100_000, 1)
		if err != nil {
			t.Fatal(err)
		}
		asked := map[string]bool{}
		for range 10_000 {
			var r request
			w.next(w, &r)
			asked[string(r.body)] = true
		}
		if len(asked) != hotKeys {
			t.Errorf("%s: got %d different reads, want %d", name, len(asked), hotKeys)
		}
	}
}

// A write never asks for a key that a read asks for, or another client's.
func TestWork_WriteKeysAreNew(t *testing.T) {
	seen := map[string]bool{}
	for client := range 3 {
		w, err := newWork(workWrite, 1000, client)
		if err != nil {
			t.Fatal(err)
		}
		var r request
		for range 1000 {
			w.next(w, &r)
			if key := string(r.body); seen[key] {
				t.Fatalf("%s comes twice", key)
			}
			seen[string(r.body)] = true
		}
	}
}
