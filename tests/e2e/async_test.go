package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
)

// writeStatus is the answer of GET db/writes/{id}.
type writeStatus struct {
	ID      string            `json:"id"`
	Status  string            `json:"status"`
	Seq     uint64            `json:"seq"`
	Results []json.RawMessage `json:"results"`
}

// sendAsync sends an asynchronous write and returns its final state.
func (s *system) sendAsync(t *testing.T, path, body string, headers ...string) writeStatus {
	t.Helper()
	a := s.Post(t, s.db(path), body, append(headers, "Prefer", "respond-async")...)
	id := decode[writeStatus](t, a.expect(t, http.StatusAccepted, anyBody)).ID
	if id == "" {
		t.Fatalf("202 without an operation id: %s", a.Body)
	}
	var state writeStatus
	eventually(t, againLimit, func() error {
		a := s.Get(t, s.db("/api/v1/db/writes/"+id))
		if err := a.check(http.StatusOK, anyBody); err != nil {
			return err
		}
		state = decode[writeStatus](t, a)
		if state.Status == "pending" {
			return fmt.Errorf("write %s is still pending", id)
		}
		return nil
	})
	return state
}

// An asynchronous write is accepted with an id, under which its state can be read.
func TestAsync_Write_IsAppliedAndTold(t *testing.T) {
	sys := shared(t)
	table := sys.NewTable(t, "id INTEGER PRIMARY KEY")
	insert := fmt.Sprintf(`{"query":"insert","table":%q,"values":{"id":1}}`, table)
	state := sys.sendAsync(t, "/api/v1/db/write", insert)
	if state.Status != "applied" || state.Seq == 0 || len(state.Results) != 1 {
		t.Errorf("got %s, want it applied with seq and result", toJSON(state))
	}
	if n := sys.QueryInt(t, "SELECT count(*) FROM "+table); n != 1 {
		t.Errorf("rows after an applied write: got %d, want 1", n)
	}
	if state = sys.sendAsync(t, "/api/v1/db/write", insert); state.Status != "failed" {
		t.Errorf("the same key inserted twice: got %s, want it failed", toJSON(state))
	}
	state = sys.sendAsync(t, "/db/execute", sqlBody("INSERT INTO "+table+" VALUES(2)"))
	if state.Status != "applied" || len(state.Results) != 1 {
		t.Errorf("the SQL form: got %s, want it applied", toJSON(state))
	}
}

// An asynchronous write with a key is applied once, however often and in whichever form it is sent.
func TestAsync_WithAKey_IsAppliedOnce(t *testing.T) {
	sys := shared(t)
	table := sys.NewTable(t, "id INTEGER PRIMARY KEY")
	body, key := sqlBody("INSERT INTO "+table+" DEFAULT VALUES"), newName("async")
	first := sys.sendAsync(t, "/db/execute", body, keyHeader, key)
	again := sys.sendAsync(t, "/db/execute", body, keyHeader, key)
	if first.Status != "applied" || toJSON(first) != toJSON(again) {
		t.Errorf("got %s, then %s, want the same, applied", toJSON(first), toJSON(again))
	}
	sys.Post(t, sys.db("/db/execute"), body, keyHeader, key).expect(t, http.StatusOK, anyBody)
	if n := sys.QueryInt(t, "SELECT count(*) FROM "+table); n != 1 {
		t.Errorf("rows: got %d, want 1", n)
	}
}

// An unknown id is 404.
func TestAsync_UnknownID_404(t *testing.T) {
	sys := shared(t)
	for _, id := range []string{"0190f2c4-7c4e-8b1a-9c52-3f6d8b0a1e2d", "abc", "1", "%20"} {
		sys.Get(t, sys.db("/api/v1/db/writes/"+id)).expect(t, http.StatusNotFound, anyBody)
	}
}
