// Package commitlog is the single source of truth of the system. It owns the durable database file and decides, one
// batch at a time, which operations take effect, in which order, and exactly once. It is the end of the write path,
// below persdb's HTTP server, and the source of the entries that replicas apply. DESIGN.md describes it in full.
package commitlog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/logkey"
	"rideshare/internal/replication"
	"rideshare/internal/sqlite"
)

// FileName is the file of the tables inside the data directory. The log is in LogFileName.
const FileName = "persdb.db"

// Config holds the settings of a Store. Only Dir is required.
type Config struct {
	// Dir holds the files of tables and log and is created if missing. Only one process may use it at a time.
	Dir string
	// Schema creates the application's tables in a new database. Protected names the tables and indexes that clients may
	// read and write, but not drop or alter; see sqlite.Options.
	Schema, Protected []string
	// Retain bounds the log; zero fields mean an hour, 1,000,000 operations and 1 GiB.
	Retain Retention
	// MaxTables is how many bytes tables and indexes may take; zero means no limit. Operations that would grow them
	// beyond it are refused with CodeFull; all others are accepted.
	MaxTables int64
	// Reserve is how many bytes of disk space are held in reserve for deletes, trims and claims on a full disk; zero
	// means none. Production uses DefaultReserve.
	Reserve int64
	// Archive, if set, keeps entries from being trimmed until Store.Archived reports that the archive has them. Nil means
	// that there is no archive.
	Archive *Archive
	// TrimEvery is the interval between two checks of the retention bounds; zero means a minute, negative means never.
	TrimEvery time.Duration
	// StatementLimit is how long one statement may run before it fails alone; 2 s if zero.
	StatementLimit time.Duration
	// OperationLimit is how long all statements of one operation may run before the remaining ones fail; 3 s if zero.
	OperationLimit time.Duration
	// SharedLimit is how long an operation may run while others wait in its batch; 50 ms if zero. A longer operation is
	// deferred with dbaas.CodeSlow, and the master commits it alone.
	SharedLimit time.Duration
	// Limits bounds the resources of one client statement; zero fields mean sqlite's defaults.
	Limits sqlite.Limits
	// OnStuck, if set, is called for a statement that cannot be stopped; see sqlite.Options.
	OnStuck func(sql string)
	// Log receives lines about the life cycle and failures; nothing is logged if nil.
	Log *slog.Logger
	// OnCommit, if set, is called after every Commit with the number of operations, the outcome and the duration.
	// OnSync, if set, is called with the duration of the append to the log, which is the fsync. Neither may block.
	OnCommit func(operations int, outcome dbaas.Code, took time.Duration)
	OnSync   func(took time.Duration)
	// Now is the wall clock, for deadlines and the times of entries; time.Now if nil.
	Now func() time.Time
	// Elapsed returns the time since a fixed moment of this process and never steps. Ages of entries are measured with
	// it. If nil, it is the time since Open.
	Elapsed    func() time.Duration
	shrinkFrom int64 // the size from which a file that is mostly free is shrunk at open
	files      files
	// OpenLog returns the log of a cluster. If nil, it is a FileLog in Dir.
	OpenLog func(cluster dbaas.ClusterID) (Log, error)
	// Shared means that other processes can write the log that OpenLog returns. Store.Head then asks the log, and entries
	// of another process are taken over.
	Shared bool
}

const (
	defaultRetainFor      = time.Hour
	defaultRetainOps      = 1_000_000
	defaultRetainBytes    = 1 << 30
	defaultTrimEvery      = time.Minute
	defaultStatementLimit = 2 * time.Second
	defaultOperationLimit = 3 * time.Second
	defaultSharedLimit    = 50 * time.Millisecond
	// readerCount is the number of read-only connections to each file: it bounds concurrent log reads and look-ups
	// (log.db), and concurrent hash runs (persdb.db).
	readerCount = 4
)

// Store is the database with its log. Its methods are safe for concurrent use.
type Store struct {
	cfg      Config
	log      Log
	readers  *Readers
	lock     *os.File
	writing  chan struct{} // a lock with one token: its holder owns conn and may call the log's writing methods
	copying  chan struct{} // a token for each snapshot that is read
	backups  chan struct{} // a token for each backup or file of a client
	conn     *sqlite.Conn
	guard    *replication.Guard   // of clients' statements on conn
	capture  *replication.Capture // on conn
	doubtful bool                 // guarded by writing: settle must first find out what the log holds
	applied  dbaas.Seq            // guarded by writing: the position of the tables; below the head after a failed COMMIT
	synced   dbaas.Seq            // guarded by writing: the tables are durable up to here
	lastAt   time.Time
	tables   atomic.Int64 // bytes of tables and indexes after the last write
	outgrew  atomic.Bool  // an operation was refused because it would have made the tables too large
	near     bool         // belongs to the trimming goroutine: tables is near its limit
	full     atomic.Bool  // the last write found no room on the disk
	sizes    sizes
	hooks    hooks
	cluster  dbaas.ClusterID // not changed after Open
	reserve  reserve         // guarded by writing, as fullAt
	fullAt   int64           // bytes of tables when the disk was last found full

	mu     sync.RWMutex // guards what follows; taken after writing
	index  index
	bounds Bounds
	// unsettled are the operations of an append whose outcome is unknown, until settle has found it out.
	unsettled []dbaas.OpID
	archive   archiveState
	changed   chan struct{} // closed and replaced when the head moves
	tooLong   chan struct{} // gets a token when the log must be trimmed immediately

	stop context.CancelFunc
	done chan struct{} // closed when the trimming goroutine has ended
	sharing
}

// hooks are called at the named points of a commit, in tests only. An error from a hook simulates a failure of the next
// step.
type hooks struct {
	beforeAppend, beforeTables, afterCommit hook
}

type hook func() error

func (h hook) call() error {
	if h == nil {
		return nil
	}
	return h()
}

// Open opens the database in cfg.Dir, or creates it with cfg.Schema, brings it up to its log, and starts
// trimming. The caller closes it.
//
// Open returns CodeConflict when another process has the directory open, and CodeInternal when a file is damaged, was
// not made by persdb, or is missing although a database was created in the directory.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	s := &Store{
		cfg: cfg.withDefaults(), writing: make(chan struct{}, 1), copying: make(chan struct{}, maxSnapshots), backups: make(chan struct{}, maxBackups),
		changed: make(chan struct{}), tooLong: make(chan struct{}, 1), done: make(chan struct{}), sizes: defaultSizes(),
		index: index{places: map[dbaas.OpID]place{}},
	}
	if cfg.Limits.Answer > 0 {
		s.sizes.result = min(s.sizes.result, cfg.Limits.Answer)
	}
	began := time.Now()
	if err := s.open(ctx); err != nil {
		_ = s.closeFiles() // the first error is the one to return.
		return nil, fmt.Errorf("open store: %w", err)
	}
	s.cfg.Log.InfoContext(ctx, "store opened", logkey.Cluster, s.cluster, logkey.Seq, s.bounds.Head.Seq, logkey.Epoch, s.bounds.Head.Epoch,
		logkey.Count, s.index.ops, logkey.Took, time.Since(began))
	trimming, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stop = stop
	go s.trimAlways(trimming)
	s.following.Go(func() { s.followAlways(trimming) })
	return s, nil
}

func (cfg Config) withDefaults() Config {
	if cfg.Retain.For == 0 {
		cfg.Retain.For = defaultRetainFor
	}
	if cfg.Retain.Ops == 0 {
		cfg.Retain.Ops = defaultRetainOps
	}
	if cfg.Retain.Bytes == 0 {
		cfg.Retain.Bytes = defaultRetainBytes
	}
	if cfg.TrimEvery == 0 {
		cfg.TrimEvery = defaultTrimEvery
	}
	cfg.StatementLimit = cmp.Or(cfg.StatementLimit, defaultStatementLimit)
	cfg.OperationLimit = cmp.Or(cfg.OperationLimit, defaultOperationLimit)
	cfg.shrinkFrom = cmp.Or(cfg.shrinkFrom, defaultShrinkFrom)
	cfg.SharedLimit = cmp.Or(cfg.SharedLimit, defaultSharedLimit)
	if cfg.files.sync == nil {
		cfg.files = files{sync: SyncPath, rename: os.Rename}
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Elapsed == nil {
		began := time.Now()
		cfg.Elapsed = func() time.Duration { return time.Since(began) }
	}
	return cfg
}

func (s *Store) open(ctx context.Context) error {
	if err := os.MkdirAll(s.cfg.Dir, 0o750); err != nil {
		return err
	}
	var err error
	if s.lock, err = lockDir(s.cfg.Dir); err != nil {
		return err
	}
	if err = s.checkOrigin(); err != nil {
		return err
	}
	if err = s.split(ctx); err != nil {
		return fmt.Errorf("move the log into its own file: %w", err)
	}
	if err = s.cleanBackups(); err != nil {
		return err
	}
	s.reserve = reserve{path: filepath.Join(s.cfg.Dir, "persdb.reserve"), size: s.cfg.Reserve, free: func() int64 { return freeBytes(s.cfg.Dir) }}
	if err = s.reserve.keep(); err != nil {
		s.cfg.Log.WarnContext(ctx, "no room is kept back for a full disk", logkey.Error, err)
	}
	for _, path := range []string{s.path(), s.logPath()} {
		if err = s.shrink(ctx, path); err != nil {
			s.cfg.Log.WarnContext(ctx, "database file not made smaller", logkey.Path, path, logkey.Error, err)
		}
	}
	if s.conn, err = sqlite.Open(s.path(), sqlite.Options{
		Recoverable: true, ForeignKeys: true, Triggers: true, Limits: s.cfg.Limits, OnStuck: s.cfg.OnStuck,
	}); err != nil {
		return err
	}
	s.guard = replication.WriteGuard(s.cfg.Protected)
	s.capture = replication.NewCapture(s.conn, s.guard, s.sizes.entry)
	if err = s.conn.QuickCheck(); err != nil {
		return damaged(err)
	}
	if err = s.create(); err != nil {
		return err
	}
	if err = s.openLog(); err != nil {
		return err
	}
	if err = s.markMade(); err != nil {
		return err
	}
	return s.load(ctx)
}

// Close ends trimming, waits for a running commit, interrupts running reads of log and hashes, and closes the files.
// Snapshots and backups must be closed before, and no method may be called afterwards.
func (s *Store) Close() error {
	s.stop()
	<-s.done
	s.following.Wait()
	s.writing <- struct{}{}
	return s.closeFiles()
}

func (s *Store) closeFiles() error {
	var errs []error
	if s.readers != nil {
		errs = append(errs, s.readers.Close())
	}
	if s.conn != nil {
		errs = append(errs, s.conn.Close())
	}
	if s.log != nil {
		errs = append(errs, s.log.Close())
	}
	if s.lock != nil {
		errs = append(errs, s.lock.Close())
	}
	return errors.Join(errs...)
}

// write takes the writing token and runs fn, which commits ops. If fn cannot be run now, write returns CodeUnknown if the
// last step, whose outcome is not known, may have stored one of ops, otherwise CodeUnavailable.
func (s *Store) write(ctx context.Context, ops []dbaas.Operation, fn func() error) error {
	if s.inactive.Load() {
		return s.refused(ops)
	}
	select {
	case s.writing <- struct{}{}:
	case <-ctx.Done():
		return dbaas.WrapError(s.notRun(ops), "the database is busy", ctx.Err())
	}
	defer func() { <-s.writing }()
	if err := s.certain(ctx, ops); err != nil {
		return err
	}
	if s.short() {
		s.noteRoom(ctx)
	}
	return s.noteActive(ctx, s.noteFull(ctx, fn()))
}

// moveTo publishes a new head. The caller holds mu.
func (s *Store) moveTo(b Bounds) {
	if b.Head.Seq != s.bounds.Head.Seq {
		close(s.changed)
		s.changed = make(chan struct{})
	}
	s.bounds = b
	if s.index.bytes > hardBytes*s.cfg.Retain.Bytes {
		select {
		case s.tooLong <- struct{}{}:
		default: // a token is already there.
		}
	}
}

// Claim issues an epoch to a new master. When it returns nil, the epoch is on disk and no older epoch can commit.
func (s *Store) Claim(ctx context.Context) (dbaas.Epoch, error) {
	var epoch dbaas.Epoch
	err := s.write(ctx, nil, func() error {
		var err error
		if epoch, err = s.log.Claim(ctx); err != nil {
			s.doubtful = dbaas.CodeOf(err) == dbaas.CodeUnknown
			return unavailable(err)
		}
		s.noteRoom(ctx)
		if s.cfg.Shared { // the new master must see what another process has stored.
			return unavailableOrNil(s.settle(ctx))
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.bounds.Head.Epoch = epoch
		return nil
	})
	if err != nil {
		return 0, err
	}
	s.cfg.Log.InfoContext(ctx, "epoch claimed", logkey.Epoch, epoch)
	return epoch, nil
}

// unavailable keeps the codes that callers distinguish and converts all others to CodeUnavailable: certainly not done.
func unavailable(err error) error {
	switch dbaas.CodeOf(err) { //nolint:exhaustive // all others are alike.
	case dbaas.CodeFull, dbaas.CodeStaleEpoch, dbaas.CodeUnavailable, dbaas.CodeUnknown:
		return err
	}
	return dbaas.WrapError(dbaas.CodeUnavailable, "the database could not do it now", err)
}
