package client_test

import (
	"log/slog"
	"net/http/httptest"
	"testing"
	"time"

	"rideshare/internal/rideschema"
	"rideshare/internal/testkit/storetest"
	"rideshare/persdb/client"
	"rideshare/persdb/commitlog"
	"rideshare/persdb/server"

	_ "modernc.org/sqlite" // the witness: another way to the same files.
)

var (
	_ server.Store    = (*commitlog.Store)(nil)
	_ storetest.Store = (*client.Client)(nil)
)

// Through server and client the store keeps all its guarantees.
func TestClient_Suite(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Store {
		t.Helper()
		s, err := commitlog.Open(t.Context(), commitlog.Config{
			Dir: t.TempDir(), Schema: rideschema.Create(), Protected: rideschema.Protected(), TrimEvery: -1, SharedLimit: time.Minute,
		})
		if err != nil {
			t.Fatal(err)
		}
		web := httptest.NewServer(server.New(s, slog.New(slog.DiscardHandler)))
		c, err := client.New(client.Config{URL: web.URL})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			web.Close()
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		return c
	})
}
