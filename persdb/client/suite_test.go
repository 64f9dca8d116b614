package client_test

import (
	"log/slog"
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

// openStore opens a store with limits so long that no operation fails because the machine is busy.
func openStore(t *testing.T) *commitlog.Store {
	t.Helper()
	s, err := commitlog.Open(t.Context(), commitlog.Config{
		Dir: t.TempDir(), Schema: rideschema.Create(), Protected: rideschema.Protected(), TrimEvery: -1,
		StatementLimit: time.Minute, OperationLimit: time.Minute, SharedLimit: time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// Through server and client the store keeps all its guarantees.
func TestClient_Suite(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Store {
		t.Helper()
		return to(t, server.New(openStore(t), slog.New(slog.DiscardHandler)))
	})
}
