package replica_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/testkit/workertest"
)

// A read that runs past its deadline is interrupted, a wrong one fails, and the next one on the same Reader works.
func TestReader_Read_DeadlineAndErrors(t *testing.T) {
	store := workertest.NewStore(t, schema)
	fill(store, 1, 3)
	l := bound(t, store, nil)
	l.reaches(3)
	rd, err := l.Reader()
	if err != nil {
		t.Fatal(err)
	}
	defer rd.Close()
	soon, never := time.Now().Add(50*time.Millisecond), time.Now().Add(time.Hour)
	slow := "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c) SELECT count(*) FROM c"
	for _, c := range []struct {
		sql      string
		deadline time.Time
		want     dbaas.Code
	}{
		{slow, soon, dbaas.CodeTimeout},
		{"SELECT * FROM absent", never, dbaas.CodeInvalid},
		{"SELECT * FROM rs_applied", never, dbaas.CodeInvalid},
		{"DELETE FROM n", never, dbaas.CodeInvalid},
		{"SELECT i FROM n ORDER BY i", never, dbaas.CodeOK},
	} {
		r := rd.Read(t.Context(), &dbaas.Read{
			Format: dbaas.FormatObjects, Deadline: c.deadline, Statements: []dbaas.Statement{{SQL: c.sql}},
		})
		if r.Code != c.want {
			t.Errorf("%.40s: got %q (%s), want %q", c.sql, r.Code, r.Message, c.want)
		}
	}
}

// Bodies do not change while later reads use the same buffers.
func TestReader_Read_BodiesAreKept(t *testing.T) {
	store := workertest.NewStore(t, schema)
	fill(store, 1, 300)
	l := bound(t, store, nil)
	l.reaches(300)
	rd, err := l.Reader()
	if err != nil {
		t.Fatal(err)
	}
	defer rd.Close()
	var bodies [][]byte
	for i := 1; i <= 300; i++ {
		r := rd.Read(t.Context(), &dbaas.Read{Format: dbaas.FormatObjects, Statements: []dbaas.Statement{
			{SQL: "SELECT v, hex(zeroblob(?)) AS pad FROM n WHERE i=?", Args: []dbaas.Value{dbaas.Integer(int64(i * 7)), dbaas.Integer(int64(i))}},
		}})
		bodies = append(bodies, r.Body)
	}
	for i, b := range bodies {
		if want := fmt.Sprintf(`[{"v":"v%d","pad":"%s"}]`, i+1, bytes.Repeat([]byte("00"), (i+1)*7)); string(b) != want {
			t.Fatalf("body %d: got %.60s of %d bytes, want %.60s of %d", i+1, b, len(b), want, len(want))
		}
	}
}
