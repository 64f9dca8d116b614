// Package writer archives persdb's log and tables while persdb runs. One Archiver belongs to one store. Commits never
// wait for the Archiver. It reports to the store which entries the archive has, so that the store trims only those.
// DESIGN.md of package archive says what is left behind if the process dies at any step.
package writer

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/logkey"
	"rideshare/internal/wait"
	"rideshare/persdb/archive"
	"rideshare/persdb/archive/place"
	"rideshare/persdb/commitlog"
)

// Config holds the settings of an Archiver. Only Place is required.
type Config struct {
	Place place.Place
	// Every is the time after which a committed entry is stored, if no other upload is going on then; a second if zero.
	Every time.Duration
	// SnapshotEvery is the time, and SnapshotBytes the size of the log, after which the next snapshot is made; a day and
	// 1 GiB if zero.
	SnapshotEvery time.Duration
	SnapshotBytes int64
	// Keep is the age up to which each position stays restorable; a week if zero.
	Keep time.Duration
	// Parent is the position that the data folder was restored from; nil if it was not restored.
	Parent *archive.Position
	// Log receives a line when failures begin and end; nothing is logged if nil.
	Log *slog.Logger
	// OnUpload, if set, is called after each attempt to store an object, with the object's kind.
	OnUpload func(kind string, err error, took time.Duration)
	// Now is the wall clock, for ages; time.Now if nil.
	Now          func() time.Time
	segmentBytes int
}

const (
	segmentBytes = 4 << 20
	mergedBytes  = 64 << 20
	day          = 24 * time.Hour
	// firstLook bounds how long a start waits for the archive.
	firstLook = 5 * time.Second
	// lastUpload bounds how long Close waits for the last segment.
	lastUpload = 2 * time.Second
	// quiet is how long a call of the place may go without progress.
	quiet = time.Minute
	// look is how often the size of the backlog is read before Every is over. To be woken by each commit would cost more.
	look = 100 * time.Millisecond
	// tidyEvery is how often objects are merged and removed.
	tidyEvery = time.Hour
)

// Archiver copies the log of one store to one place.
type Archiver struct {
	cfg   Config
	store *commitlog.Store
	id    archive.WriterID
	due   wait.Token // a snapshot may be due
	stop  context.CancelFunc
	done  sync.WaitGroup

	started time.Time
	stopped atomic.Bool // another process writes, or the histories differ
	tidied  time.Time   // when upkeep last called tidy; only upkeep uses it

	mu       sync.Mutex   // guards the fields below; held during calls of store.Archived, so that after unsettle only begin calls it
	ready    bool         // begin has read the archive's state
	position dbaas.Seq    // the next segment begins after it
	skipped  dbaas.Seq    // the newest position that was skipped: the archive may lack entries up to it
	trimmed  dbaas.Seq    // Header.Trimmed of the next segment
	before   dbaas.Seq    // Header.Trimmed of the last segment
	last     lastSnapshot // the newest snapshot
	bad      string       // the name of the newest snapshot if it is bad; the next snapshot may replace it
	want     bool         // a snapshot is due, whatever the age of the last one
	asked    int          // how often want was set: a snapshot satisfies only what was wanted before the snapshot began
	goal     dbaas.Seq    // the head of the log when begin read the archive: no snapshot is made before position reaches it
	gaps     int64        // entries that were damaged before the archive had them, and losses of the archive
	since    int64        // bytes of the log since the last snapshot; compressed if they were archived before the start
	headers  map[string]archive.Header
}

// lastSnapshot is the newest snapshot of the archive.
type lastSnapshot struct {
	seq  dbaas.Seq
	made time.Time // zero: there is none
}

// errOtherWriter says that another process archives the same cluster.
var errOtherWriter = errors.New("another persdb process archives this cluster, this one has stopped")

// Start archives a store until Close. It waits up to 5 s to read the archive's state, and returns a *HistoryError if
// the archive has another history than the store. If the archive does not answer in time, Start succeeds and the
// Archiver retries in the background.
func Start(ctx context.Context, store *commitlog.Store, cfg Config) (*Archiver, error) {
	a := newArchiver(store, cfg)
	first, cancel := context.WithTimeout(ctx, firstLook)
	defer cancel()
	begun := make(chan error, 1)
	a.done.Go(func() {
		defer close(begun)
		begun <- a.begin(first) // may outlast first, if the place hangs in the kernel.
	})
	var err error
	select {
	case err = <-begun:
	case <-first.Done():
		err = context.Cause(first)
	}
	if _, other := errors.AsType[*HistoryError](err); other {
		return nil, err
	} else if err != nil {
		a.cfg.Log.ErrorContext(ctx, "the archive does not answer, nothing of the log is trimmed until it does", logkey.Error, err)
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	a.stop = stop
	a.done.Go(func() {
		for range begun { // until begin has ended
		}
		a.upload(running)
	})
	a.done.Go(func() { a.maintain(running) })
	return a, nil
}

func newArchiver(store *commitlog.Store, cfg Config) *Archiver {
	cfg.Every = cmp.Or(cfg.Every, time.Second)
	cfg.SnapshotEvery = cmp.Or(cfg.SnapshotEvery, day)
	cfg.SnapshotBytes = cmp.Or(cfg.SnapshotBytes, 1<<30)
	cfg.Keep = cmp.Or(cfg.Keep, 7*day)
	cfg.segmentBytes = cmp.Or(cfg.segmentBytes, segmentBytes)
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Archiver{
		cfg: cfg, store: store, started: cfg.Now(), id: archive.NewWriterID(), due: wait.NewToken(), headers: map[string]archive.Header{},
	}
}

// Close ends archiving. It tries for 2 s to store the entries that the archive lacks. It does not wait for a call to the
// place that hangs longer.
func (a *Archiver) Close() {
	a.stop()
	ctx, cancel := context.WithTimeout(context.Background(), lastUpload)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		a.done.Wait()
		ended <- a.uploadRest(ctx)
	}()
	var err error
	select {
	case err = <-ended:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil && a.owes() {
		a.cfg.Log.WarnContext(ctx, "the archive lacks the end of the log until the next start", logkey.Error, err)
	}
}

// uploadRest stores the entries that the archive lacks.
func (a *Archiver) uploadRest(ctx context.Context) error {
	for ctx.Err() == nil && a.owes() {
		if err := a.next(ctx); err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

// Stats holds the values for metrics of an Archiver. commitlog.ArchiveState has the others.
type Stats struct {
	// SnapshotAge is the age of the newest snapshot; the time since Start if there is none.
	SnapshotAge time.Duration
	// SnapshotEvery is the time after which the next snapshot is made.
	SnapshotEvery time.Duration
	// Gaps counts the entries that were found damaged before the archive had them, and how often the archive was found to
	// lack what it had.
	Gaps int64
	// Stopped reports that archiving has stopped for good: another process writes, or the histories differ.
	Stopped bool
}

// Stats returns the current values.
func (a *Archiver) Stats() Stats {
	a.mu.Lock()
	defer a.mu.Unlock()
	age := a.sinceSnapshot()
	if a.last.made.IsZero() {
		age = a.cfg.Now().Sub(a.started)
	}
	return Stats{SnapshotAge: age, SnapshotEvery: a.cfg.SnapshotEvery, Gaps: a.gaps, Stopped: a.stopped.Load()}
}

func (a *Archiver) isReady() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.ready
}

// lag returns how many entries the archive lacks.
func (a *Archiver) lag() dbaas.Seq {
	state := a.store.ArchiveState()
	a.mu.Lock()
	defer a.mu.Unlock()
	if state.Head <= a.position { // the next entry will be committed after this trimming.
		a.trimmed = state.Trimmed
	}
	return state.Head - min(state.Head, a.position)
}

// owes reports whether this process has entries to store.
func (a *Archiver) owes() bool { return a.isReady() && !a.stopped.Load() && a.lag() > 0 }

// begin reads the archive's state and makes this process the archive's writer.
func (a *Archiver) begin(ctx context.Context) error {
	cluster := a.store.ArchiveState().Cluster
	before, err := archive.Read(ctx, a.cfg.Place, cluster)
	var good *archive.Catalog
	if err == nil {
		good, err = a.compareGood(ctx, before)
	}
	if err != nil {
		return err
	}
	if err = archive.WriteCluster(ctx, a.cfg.Place, archive.Cluster{ID: cluster, Parent: a.cfg.Parent}); err != nil && !errors.Is(err, place.ErrExists) {
		return err
	}
	if err = archive.WriteWriter(ctx, a.cfg.Place, cluster, a.id); err != nil {
		return err
	}
	catalog, err := archive.Read(ctx, a.cfg.Place, cluster) // again: from here on no other process starts an upload.
	if err == nil && !slices.Equal(before.Segments, catalog.Segments) {
		good, err = a.compareGood(ctx, catalog)
	}
	if err != nil {
		return err
	}
	good.Snapshots = catalog.Snapshots
	return a.goOn(ctx, good)
}

// goOn continues archiving where a catalog ends.
func (a *Archiver) goOn(ctx context.Context, catalog *archive.Catalog) error {
	last, bad, err := a.newestSnapshot(ctx, catalog)
	if err != nil {
		return err
	}
	state := a.store.ArchiveState()
	catalog, trimmed, err := a.newestSegment(ctx, catalog.Without(bad), state.Trimmed)
	if err != nil {
		return err
	}
	_, reached := catalog.Chain(state.Trimmed)
	ranges := catalog.Ranges()
	since := int64(0)
	after, _ := catalog.Chain(last.seq)
	for i := range after {
		since += after[i].Bytes
	}
	a.mu.Lock()
	a.ready, a.position, a.last, a.bad, a.goal = true, reached, last, bad, state.Head
	a.trimmed, a.before = trimmed, trimmed
	a.since = max(a.since, since)
	a.want = len(ranges) == 0 || ranges[len(ranges)-1].Last < reached
	a.asked++
	a.tell()
	a.mu.Unlock()
	a.due.Give()
	a.cfg.Log.InfoContext(ctx, "archiving", logkey.Cluster, state.Cluster, logkey.Seq, reached)
	return nil
}

// upload stores segments until ctx ends or another process has become the archive's writer.
func (a *Archiver) upload(ctx context.Context) {
	again := wait.Backoff{First: time.Second, Cap: 30 * time.Second, Jitter: 0.2}
	var failures wait.Streak
	for !a.stopped.Load() && ctx.Err() == nil {
		err := a.step(ctx)
		if err == nil {
			if n := failures.End(); n > 0 {
				a.cfg.Log.InfoContext(ctx, "the archive answers again", logkey.Count, n)
			}
			again.Reset()
			continue
		}
		if ctx.Err() != nil || a.giveUp(ctx, err) {
			return
		}
		if failures.Fail() {
			a.cfg.Log.WarnContext(ctx, "nothing was archived, and nothing of the log that the archive lacks is trimmed", logkey.Error, err)
		}
		again.Wait(ctx)
	}
}

// giveUp stops archiving if err is permanent, and reports whether it is. If the histories differ, the store refuses
// writes from then on.
func (a *Archiver) giveUp(ctx context.Context, err error) bool {
	var other *HistoryError
	switch {
	case errors.As(err, &other):
		a.store.RefuseWrites(err)
	case !errors.Is(err, errOtherWriter):
		return false
	}
	if !a.stopped.Swap(true) {
		a.cfg.Log.ErrorContext(ctx, "archiving has stopped", logkey.Error, err)
	}
	return true
}

// step waits for entries that the archive lacks, and stores a segment. If the archive's state is not known, it calls
// begin instead.
func (a *Archiver) step(ctx context.Context) error {
	if !a.isReady() {
		looking, cancel := wait.UntilStalled(ctx, quiet)
		defer cancel()
		return a.begin(looking)
	}
	a.mu.Lock()
	position := a.position
	a.mu.Unlock()
	if _, err := a.store.Await(ctx, position, time.Minute); err != nil {
		return err
	}
	for a.owes() {
		state := a.store.ArchiveState()
		rest := a.cfg.Every - state.Lag
		if rest <= 0 || state.Backlog >= int64(a.cfg.segmentBytes) {
			return a.next(ctx)
		}
		if !wait.For(ctx, min(rest, look)) {
			return nil
		}
	}
	return nil
}
