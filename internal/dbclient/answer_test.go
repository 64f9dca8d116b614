package dbclient_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

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

// New accepts only a usable URL.
func TestNew_Settings(t *testing.T) {
	for _, url := range []string{"", "localhost:9500", "amqp://x", "http://", "://", "http://a,", "http://a,http://a", "http://a,https://b"} {
		if _, err := dbclient.New(dbclient.Config{URL: url}); err == nil {
			t.Errorf("%q: got nil, want an error", url)
		}
	}
}
