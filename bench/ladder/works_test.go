package ladder

import (
	"bytes"
	"testing"
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
