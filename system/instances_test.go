package system_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/telemetry"
	"rideshare/internal/testkit/pgtest"
	"rideshare/internal/testkit/storetest"
	"rideshare/internal/testkit/testenv"
	"rideshare/persdb/archive"
	"rideshare/persdb/archive/place"
	"rideshare/persdb/commitlog"
	"rideshare/system"
)

// openShared opens a store on a shared log, with an archive in a folder.
func openShared(t *testing.T, log *pgtest.Place, folder string) (*system.ArchivedStore, *telemetry.Registry) {
	t.Helper()
	cfg := commitlog.Config{Dir: t.TempDir(), Schema: []string{"CREATE TABLE t(a)"}, Log: slog.New(slog.DiscardHandler)}
	registry := telemetry.NewRegistry()
	system.Log{URL: log.URL, PasswordFile: log.PasswordFile}.Use(t.Context(), &cfg)
	s, err := system.OpenStore(t.Context(), cfg, system.Archive{URL: "file://" + folder, Every: time.Millisecond, Backlog: 1 << 30}, registry)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, registry
}

func metricsOf(t *testing.T, registry *telemetry.Registry) string {
	t.Helper()
	rec := httptest.NewRecorder()
	telemetry.Handler(registry).ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", http.NoBody))
	return rec.Body.String()
}

// A store that takes over, and whose archive has another history, says that archiving has stopped. It does not tell the age of
// a snapshot, which it does not know.
func TestOpenStore_SharedLog_OtherHistoryIsStopped(t *testing.T) {
	log, folder := pgtest.Shared(t), t.TempDir()
	openShared(t, log, t.TempDir())
	s, registry := openShared(t, log, folder)
	newer := archive.SegmentName(s.ArchiveState().Cluster, 1, 9, archive.NewWriterID()) // positions that the log lacks
	if err := place.Folder(folder).Create(t.Context(), newer, strings.NewReader("")); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, time.Minute, func() error { return s.TakeOver(t.Context()) })
	testenv.Eventually(t, time.Minute, func() error {
		got := metricsOf(t, registry)
		for _, want := range []string{"\nrideshare_archive_stopped 1\n", "\nrideshare_archive_seq 0\n"} {
			if !strings.Contains(got, want) {
				return fmt.Errorf("got %s, want %q", got, want)
			}
		}
		if strings.Contains(got, "\nrideshare_archive_snapshot_") {
			t.Error("a snapshot has an age although its archiver is gone")
		}
		return nil
	})
}

// Of two stores on one log only the active one archives. A takeover takes the archive over, too.
func TestOpenStore_SharedLog_TheActiveOneArchives(t *testing.T) {
	log, folder := pgtest.Shared(t), t.TempDir()
	var stores []*system.ArchivedStore
	var registries []*telemetry.Registry
	for range 2 {
		s, registry := openShared(t, log, folder)
		stores, registries = append(stores, s), append(registries, registry)
	}
	// archives waits until only the store of this index archives, and the archive has what it committed.
	archives := func(only, want int) {
		t.Helper()
		testenv.Eventually(t, time.Minute, func() error {
			for i, registry := range registries {
				if got := strings.Contains(metricsOf(t, registry), "\nrideshare_archive_seq "); got != (i == only) {
					return fmt.Errorf("store %d archives: %t", i, got)
				}
			}
			if got := stores[only].ArchiveState().Archived; int(got) != want {
				return fmt.Errorf("archived up to %d, want %d", got, want)
			}
			return nil
		})
	}
	a, b := stores[0], stores[1]
	// A busy machine stands still for longer than a statement may take; each call may be made again.
	again := func(call func() error) {
		t.Helper()
		testenv.Eventually(t, time.Minute, call)
	}
	var epoch dbaas.Epoch
	commit := func(s *system.ArchivedStore, n int) {
		t.Helper()
		again(func() error {
			_, err := s.Commit(t.Context(), dbaas.Leadership{Epoch: epoch}, []dbaas.Operation{storetest.Op(n, fmt.Sprintf("INSERT INTO t VALUES(%d)", n))})
			return err
		})
	}
	again(func() (err error) {
		epoch, err = a.Claim(t.Context())
		return err
	})
	commit(a, 1)
	archives(0, 1)
	again(func() error { return b.TakeOver(t.Context()) })
	commit(b, 2)
	archives(1, 2)
	commit(b, 3)
	archives(1, 3)
	// Before a noticed the takeover, it may have archived entry 2, which b stored. It must not have archived more.
	if got := a.ArchiveState().Archived; got > 2 {
		t.Errorf("the inactive store archived up to %d", got)
	}
}
