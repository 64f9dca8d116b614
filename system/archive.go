package system

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync/atomic"
	"time"

	"rideshare/internal/logkey"
	"rideshare/internal/telemetry"
	"rideshare/internal/wait"
	"rideshare/persdb/archive"
	"rideshare/persdb/archive/place"
	"rideshare/persdb/archive/writer"
	"rideshare/persdb/commitlog"
)

// Archive says where persdb's archive is, and how it is kept. Zero fields mean the defaults of package writer.
type Archive struct {
	// URL is the place as place.Open reads it; empty means no archive. KeyFile has the keys of a bucket.
	URL, KeyFile string
	// Every is the time after which a segment of the log ends and is stored, SnapshotEvery the time between two snapshots,
	// and Keep the age up to which positions stay restorable.
	Every, SnapshotEvery, Keep time.Duration
	// Backlog is how many bytes of the log may wait for the archive. Above it, writes are refused if Stop is set;
	// otherwise the oldest entries are trimmed.
	Backlog int64
	Stop    bool
}

// args returns the settings as arguments of `rideshare persdb`.
func (a Archive) args() []string {
	if a.URL == "" {
		return nil
	}
	whenFull := "gap"
	if a.Stop {
		whenFull = "stop"
	}
	return []string{
		"--archive", a.URL, "--archive-key-file", a.KeyFile, "--archive-every", a.Every.String(), "--archive-snapshot-every", a.SnapshotEvery.String(),
		"--archive-keep", a.Keep.String(), "--archive-backlog", strconv.FormatInt(a.Backlog, 10), "--archive-when-full", whenFull,
	}
}

// ArchivedStore is a store and the archiver of its log, if it has one. Of several stores on one log only the active one
// archives.
type ArchivedStore struct {
	*commitlog.Store

	log      *slog.Logger
	start    func(context.Context) (*writer.Archiver, error) // nil without an archive
	archiver atomic.Pointer[writer.Archiver]                 // nil while nothing is archived
	refused  atomic.Bool                                     // the archive has another history, nothing is archived any more
	stop     context.CancelFunc
	done     chan struct{}
}

// OpenStore opens a store, begins to archive it, and registers the archive's metrics. The caller closes it. It returns a
// *writer.HistoryError if the archive has another history than the data folder.
func OpenStore(ctx context.Context, cfg commitlog.Config, a Archive, registry *telemetry.Registry) (*ArchivedStore, error) {
	if a.URL == "" {
		store, err := commitlog.Open(ctx, cfg)
		return &ArchivedStore{Store: store}, err
	}
	where, err := place.Open(a.URL, a.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("archive: %w", err)
	}
	uploads, err := telemetry.NewUploads(registry, writer.Kinds())
	if err != nil {
		return nil, err
	}
	parent, err := archive.ReadParent(cfg.Dir)
	if err != nil {
		return nil, err
	}
	cfg.Archive = &commitlog.Archive{Backlog: a.Backlog, Stop: a.Stop}
	s := &ArchivedStore{log: cmp.Or(cfg.Log, slog.New(slog.DiscardHandler)), done: make(chan struct{})}
	if s.Store, err = commitlog.Open(ctx, cfg); err != nil {
		return nil, err
	}
	s.start = func(ctx context.Context) (*writer.Archiver, error) {
		return writer.Start(ctx, s.Store, writer.Config{
			Place: where, Every: a.Every, SnapshotEvery: a.SnapshotEvery, Keep: a.Keep, Parent: parent, Log: cfg.Log, OnUpload: uploads.Observe,
		})
	}
	if s.Active() {
		err = s.archive(ctx)
	}
	if err == nil {
		err = telemetry.Register(registry, archiveMetrics(s)...)
	}
	following, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stop = stop
	go s.follow(following, cfg.Shared)
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// archive begins to archive. If the archive has another history, it returns a *writer.HistoryError.
func (s *ArchivedStore) archive(ctx context.Context) error {
	archiver, err := s.start(ctx)
	if err == nil {
		s.archiver.Store(archiver)
	}
	return err
}

// activeEvery is how often a store on a shared log checks whether it must start or stop archiving. Until it does, nothing
// that the archive lacks is trimmed, and the archive takes segments of one writer only.
const activeEvery = time.Second

// follow begins to archive when the store becomes the active one, and ends when it is not any more, until ctx ends.
func (s *ArchivedStore) follow(ctx context.Context, shared bool) {
	defer close(s.done)
	for shared && wait.For(ctx, activeEvery) {
		archiver := s.archiver.Load()
		switch active := s.Active(); {
		case active && archiver == nil:
			if err := s.archive(ctx); err != nil {
				s.log.ErrorContext(ctx, "writes are refused, the archive has another history", logkey.Error, err)
				s.RefuseWrites(err)
				s.refused.Store(true)
				return
			}
		case archiver != nil && (!active || archiver.Stats().Stopped): // Stopped: another store was active for a while, and archived.
			s.archiver.Store(nil)
			archiver.Close()
		}
	}
}

// Close tries for 2 s to store what the archive lacks, and closes the store.
func (s *ArchivedStore) Close() error {
	if s.start != nil {
		s.stop()
		<-s.done
		if archiver := s.archiver.Load(); archiver != nil {
			archiver.Close()
		}
	}
	return s.Store.Close()
}

// stats returns the values of the archiver, and whether this store archives. A store that has stopped because of another
// history counts as archiving, so that an alert fires.
func (s *ArchivedStore) stats() (writer.Stats, bool) {
	if archiver := s.archiver.Load(); archiver != nil {
		return archiver.Stats(), true
	}
	refused := s.refused.Load()
	return writer.Stats{Stopped: refused}, refused
}

// archiveMetrics returns the metrics of an archive that can be read when they are requested.
func archiveMetrics(store *ArchivedStore) []telemetry.Sampled {
	metric := func(name, help string, gauge bool, value func(commitlog.ArchiveState, writer.Stats) float64) telemetry.Sampled {
		return telemetry.Sampled{Name: "rideshare_archive_" + name, Help: help, Gauge: gauge, Read: func(emit func(float64, ...string)) {
			if stats, archives := store.stats(); archives {
				emit(value(store.ArchiveState(), stats))
			}
		}}
	}
	// Only an archiver knows of snapshots.
	snapshot := func(name, help string, value func(writer.Stats) time.Duration) telemetry.Sampled {
		return telemetry.Sampled{Name: "rideshare_archive_snapshot_" + name, Help: help, Gauge: true, Read: func(emit func(float64, ...string)) {
			if archiver := store.archiver.Load(); archiver != nil {
				emit(value(archiver.Stats()).Seconds())
			}
		}}
	}
	return []telemetry.Sampled{
		metric("seq", "Position up to which the archive has the log; 0 until persdb has learned it from the archive.", true,
			func(s commitlog.ArchiveState, _ writer.Stats) float64 { return float64(s.Archived) }),
		metric("lag_seconds", "Age of the oldest entry that the archive lacks, counted from its commit or from persdb's start; 0 if it has all.", true,
			func(s commitlog.ArchiveState, _ writer.Stats) float64 { return s.Lag.Seconds() }),
		metric("backlog_bytes", "Bytes of entries that the archive lacks.", true,
			func(s commitlog.ArchiveState, _ writer.Stats) float64 { return float64(s.Backlog) }),
		snapshot("age_seconds", "Time since the newest snapshot; since persdb's start if there is none.",
			func(a writer.Stats) time.Duration { return a.SnapshotAge }),
		snapshot("every_seconds", "ARCHIVE_SNAPSHOT_EVERY, the time after which the next snapshot is made.",
			func(a writer.Stats) time.Duration { return a.SnapshotEvery }),
		metric("gaps_total", "How often entries were lost to the archive: trimmed above ARCHIVE_BACKLOG, damaged, or lost by the archive itself. Unless the log still has them, positions from there to the next snapshot cannot be restored.", false,
			func(s commitlog.ArchiveState, a writer.Stats) float64 { return float64(s.Gaps + a.Gaps) }),
		metric("stopped", "Whether nothing is archived any more, since another process archives the cluster, or the archive has another history.", true,
			func(_ commitlog.ArchiveState, a writer.Stats) float64 { return oneIf(a.Stopped) }),
	}
}
