package commitlog_test

import (
	"cmp"
	"testing"
	"time"

	"rideshare/internal/rideschema"
	"rideshare/internal/testkit/storetest"
	"rideshare/persdb/commitlog"

	_ "modernc.org/sqlite" // the witness: another way to the same files.
)

// app returns cfg with the tables of the application.
func app(cfg commitlog.Config) commitlog.Config {
	cfg.Schema, cfg.Protected = rideschema.Create(), rideschema.Protected()
	return cfg
}

// unhurried returns cfg with limits so long that no operation fails or is deferred because the machine is busy.
func unhurried(cfg commitlog.Config) commitlog.Config {
	cfg.StatementLimit, cfg.OperationLimit = cmp.Or(cfg.StatementLimit, time.Minute), cmp.Or(cfg.OperationLimit, time.Minute)
	cfg.SharedLimit = cmp.Or(cfg.SharedLimit, time.Minute)
	return cfg
}

func open(t *testing.T, cfg commitlog.Config) *commitlog.Store {
	t.Helper()
	if cfg.Dir == "" {
		cfg.Dir = t.TempDir()
	}
	cfg.TrimEvery = -1
	s, err := commitlog.Open(t.Context(), unhurried(app(cfg)))
	if err != nil {
		t.Fatal(err)
	}
	closed := false
	t.Cleanup(func() {
		if !closed {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	return s
}

// The store passes the suite that client and server pass too.
func TestStore_Suite(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Store {
		t.Helper()
		return open(t, commitlog.Config{})
	})
}
