package dbclient_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/dbclient"
	"rideshare/internal/httpapi"
	"rideshare/internal/testkit/dbtest"
)

// Hundreds of concurrent calls are all answered.
func TestClient_ManyAtOnce(t *testing.T) {
	c := newClient(t, dbtest.New(t).URL)
	var wg sync.WaitGroup
	for range 200 {
		wg.Go(func() {
			if _, err := c.Query(context.Background(), dbclient.Options{}, dbclient.SQL("SELECT 1")); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// Wrong credentials, paths or SQL of our own are never reported to a client as its fault.
func TestClient_OurFaultsAreInternal(t *testing.T) {
	for _, code := range []dbaas.Code{dbaas.CodeUnauthorized, dbaas.CodeInvalid, dbaas.CodeNotFound} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			httpapi.WriteError(w, r, false, dbaas.Errorf(code, "x"))
		}))
		t.Cleanup(server.Close)
		if _, err := newClient(t, server.URL).Query(t.Context(), dbclient.Options{}, dbclient.SQL("SELECT 1")); dbaas.CodeOf(err) != dbaas.CodeInternal {
			t.Errorf("%s: got %v, want CodeInternal", code, err)
		}
	}
}

// A success answer with invalid contents is a bug, not a result.
func TestClient_NonsenseAnswer(t *testing.T) {
	for _, body := range []string{"", "[]", `{"results":[]}`, `{"results":[{},{}]}`, `{"error":"x"}`} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(body)) }))
		t.Cleanup(server.Close)
		if _, err := newClient(t, server.URL).Query(t.Context(), dbclient.Options{}, dbclient.SQL("SELECT 1")); dbaas.CodeOf(err) != dbaas.CodeInternal {
			t.Errorf("%q: got %v, want CodeInternal", body, err)
		}
	}
}

// A statement that the database ended because it was over a limit is no bug of this program: its answer was too large, or it
// took too long and certainly was not done.
func TestClient_StatementOverALimit(t *testing.T) {
	for text, want := range map[string]dbaas.Code{
		"the answer is over the limit of 67108864 bytes":           dbaas.CodeTooLarge,
		"the answer is over the limit of 1000 rows":                dbaas.CodeTooLarge,
		"the statement needs more than 128 MiB":                    dbaas.CodeTooLarge,
		"string or blob too big":                                   dbaas.CodeTooLarge,
		"execute timeout":                                          dbaas.CodeUnavailable,
		"query timeout":                                            dbaas.CodeUnavailable,
		"interrupted: the statement took too long":                 dbaas.CodeUnavailable,
		"UNIQUE constraint failed: users.username":                 dbaas.CodeConstraint,
		"done, its answer was not kept":                            dbaas.CodeInternal, // it was done
		"no such table: the answer is over the limit of 1 bytes":   dbaas.CodeInternal,
		"no such column: interrupted: the statement took too long": dbaas.CodeInternal,
	} {
		c := answering(t, 10*time.Second, func(w http.ResponseWriter, _ *http.Request) {
			_ = json.NewEncoder(w).Encode(map[string]any{"results": []any{map[string]string{"error": text}}})
		})
		stmt := dbclient.SQL("DELETE FROM users")
		_, query := c.Query(t.Context(), dbclient.Options{}, stmt)
		_, execute := c.Execute(t.Context(), dbclient.Options{}, stmt)
		_, rows := c.Rows(t.Context(), dbclient.Options{}, stmt, func(dbaas.Seq, []any) error { return nil })
		for name, err := range map[string]error{"query": query, "execute": execute, "rows": rows} {
			if dbaas.CodeOf(err) != want {
				t.Errorf("%s, %s: got %v, want %s", name, text, err, want)
			}
		}
	}
}

// New accepts only a usable URL.
func TestNew_Settings(t *testing.T) {
	for _, url := range []string{"", "localhost:9500", "amqp://x", "http://", "://", "http://a,", "http://a,http://a", "http://a,https://b"} {
		if _, err := dbclient.New(dbclient.Config{URL: url}); err == nil {
			t.Errorf("%q: got nil, want an error", url)
		}
	}
}
