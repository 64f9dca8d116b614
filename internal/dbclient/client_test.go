package dbclient_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	_ "modernc.org/sqlite" // The driver of dbtest.

	"rideshare/internal/dbaas"
	"rideshare/internal/dbclient"
	"rideshare/internal/httpapi"
	"rideshare/internal/instances"
	"rideshare/internal/testkit/dbtest"
	"rideshare/internal/testkit/testenv"
)

// living is a time limit of probes that no living server passes, however slow the machine is.
const living = 20 * time.Second

func TestMain(m *testing.M) {
	instances.SetProbeTime(living)
	m.Run()
}

func newClient(t *testing.T, url string) *dbclient.Client {
	t.Helper()
	c, err := dbclient.New(dbclient.Config{URL: url, Timeout: time.Minute, BreakAfter: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

const insertUser = "INSERT INTO users VALUES(?, 'x')"

// The state of the connection decides the code: a write that may have arrived is unknown and names its operation; a
// request that was never sent is unavailable.
func TestClient_LostCalls(t *testing.T) {
	db := dbtest.New(t)
	c := newClient(t, db.URL)
	write := func() error {
		_, err := c.Execute(t.Context(), dbclient.Options{Key: "k" + time.Now().String()}, dbclient.SQL(insertUser, dbaas.Text("x")))
		return err
	}
	read := func() error {
		_, err := c.Query(t.Context(), dbclient.Options{}, dbclient.SQL("SELECT 1"))
		return err
	}
	for _, tt := range []struct {
		name  string
		fault dbtest.Fault
		call  func() error
		want  dbaas.Code
	}{
		{"WriteRefused", dbtest.Refuse, write, dbaas.CodeUnavailable},
		{"WriteLost", dbtest.Lose, write, dbaas.CodeUnknown},
		{"WriteAnswerLost", dbtest.LoseAnswer, write, dbaas.CodeUnknown},
		{"WriteVague", dbtest.Vague, write, dbaas.CodeUnknown},
		{"ReadRefused", dbtest.Refuse, read, dbaas.CodeUnavailable},
		{"ReadLost", dbtest.Lose, read, dbaas.CodeUnavailable},
		{"ReadVague", dbtest.Vague, read, dbaas.CodeTimeout},
	} {
		t.Run(tt.name, func(t *testing.T) {
			db.SetFault(func(string) dbtest.Fault { return tt.fault })
			err := tt.call()
			if dbaas.CodeOf(err) != tt.want {
				t.Errorf("got %v, want %s", err, tt.want)
			}
			var e *dbaas.Error
			if tt.want == dbaas.CodeUnknown && (!asError(err, &e) || e.Op.IsZero()) {
				t.Error("the operation's id is missing")
			}
		})
	}
	c = newClient(t, "http://"+testenv.FreeAddress(t))
	for name, call := range map[string]func() error{"write": write, "read": read} {
		if err := call(); dbaas.CodeOf(err) != dbaas.CodeUnavailable {
			t.Errorf("%s with nobody listening: got %v, want CodeUnavailable", name, err)
		}
	}
}

func asError(err error, target **dbaas.Error) bool {
	e, ok := err.(*dbaas.Error) //nolint:errorlint // The client promises the type itself.
	*target = e
	return ok
}

// A call ends with its context; whether that is a timeout or unknown depends on the call.
func TestClient_Deadline(t *testing.T) {
	var cancel context.CancelFunc // of the call that has come
	leave := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/db/execute" {
			cancel()
		}
		<-leave
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(leave) })
	c, err := dbclient.New(dbclient.Config{URL: server.URL, Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	if _, err = c.Query(t.Context(), dbclient.Options{}, dbclient.SQL("SELECT 1")); dbaas.CodeOf(err) != dbaas.CodeTimeout {
		t.Errorf("read: got %v, want CodeTimeout", err)
	}
	if c, err = dbclient.New(dbclient.Config{URL: server.URL, Timeout: time.Minute}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if _, err = c.Execute(ctx, dbclient.Options{}, dbclient.SQL("DELETE FROM t")); dbaas.CodeOf(err) != dbaas.CodeUnknown {
		t.Errorf("write: got %v, want CodeUnknown", err)
	}
}

// The headers of a call carry the caller, the position and the key.
func TestClient_Headers(t *testing.T) {
	db := dbtest.New(t)
	c, err := dbclient.New(dbclient.Config{URL: db.URL + "/", Authorization: func() string { return "Bearer t0ken" }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	ctx := httpapi.WithRequestID(t.Context(), "req-1")
	if _, err := c.Execute(ctx, dbclient.Options{Key: "k"}, dbclient.SQL(insertUser, dbaas.Text("a"))); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Query(ctx, dbclient.Options{MinSeq: 1}, dbclient.SQL("SELECT 1")); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Query(ctx, dbclient.Options{MinSeq: 2}, dbclient.SQL("SELECT 1")); dbaas.CodeOf(err) != dbaas.CodeNotCaughtUp {
		t.Errorf("got %v, want CodeNotCaughtUp", err)
	}
	if _, err := c.Rows(ctx, dbclient.Options{MinSeq: 1}, dbclient.SQL("SELECT 1"), func(dbaas.Seq, []any) error { return nil }); err != nil {
		t.Fatal(err)
	}
	seen := db.Seen()
	for i, want := range []map[string]string{
		{"Authorization": "Bearer t0ken", "X-Request-Id": "req-1", "Idempotency-Key": "k", "X-Min-Seq": ""},
		{"Authorization": "Bearer t0ken", "X-Request-Id": "req-1", "Idempotency-Key": "", "X-Idempotency-Key": "", "X-Min-Seq": "1"},
		{"X-Min-Seq": "2"},
		{"Authorization": "Bearer t0ken", "X-Request-Id": "req-1", "X-Min-Seq": "1"},
	} {
		for name, value := range want {
			if got := seen[i].Header.Get(name); got != value {
				t.Errorf("request %d, %s: got %q, want %q", i, name, got, value)
			}
		}
	}
}
