// Package commitlog is the only truth of the system: it owns the durable database
// file and decides, one batch at a time, which operations take effect, in which
// order, and exactly once. It stands at the end of the write path, below persdb's
// HTTP server, and at the start of what replicas apply. DESIGN.md has the whole story.
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
	"rideshare/internal/sqlite"
)

// FileName is the database file inside the data directory.
const FileName = "persdb.db"

// Config are the settings of a Store. Only Dir is required.
type Config struct {
	// Dir holds the database file, made if missing. One process at a time.
	Dir string
	// Retain bounds the log; an hour, 1,000,000 operations and 1 GiB where zero.
	Retain Retention
	// MaxTables is how many bytes tables and indexes may take; no limit if zero. What would let them grow beyond it is
	// refused with CodeFull, what does not is taken.
	MaxTables int64
	// Reserve is how many bytes of the disk are kept back, so that deletes, trims and claims have room when it is full;
	// DefaultReserve in production, none if zero.
	Reserve int64
	// TrimEvery is the pause between two looks at the bounds; a minute if zero, never if negative.
	TrimEvery time.Duration
	// StatementLimit is how long one statement may run before it fails alone; 2 s if zero.
	StatementLimit time.Duration
	// OperationLimit is how long the statements of one operation may run together before those that are left fail; 3 s if zero.
	OperationLimit time.Duration
	// SharedLimit is how long an operation may run while others wait in its batch; 50 ms if zero. After that it is put off
	// with dbaas.CodeSlow, for the master to commit it alone.
	SharedLimit time.Duration
	// Limits bound what one statement of a client may take; sqlite's defaults where zero.
	Limits sqlite.Limits
	// OnStuck, if set, is called for a statement that nothing stops, as sqlite.Options says.
	OnStuck func(sql string)
	// Log gets life-cycle lines and failures; nothing is logged if nil.
	Log *slog.Logger
	// OnCommit, if set, is told of every call of Commit: how many operations, how it ended and how
	// long it took. OnSync is told how long COMMIT alone took, which is the fsync. Neither may block.
	OnCommit func(operations int, outcome dbaas.Code, took time.Duration)
	OnSync   func(took time.Duration)
	// Now is the wall clock, for deadlines and the times of entries; time.Now if nil.
	Now func() time.Time
	// Elapsed is the time since a moment of this process, and never steps. Ages are by it. If nil: since Open.
	Elapsed    func() time.Duration
	shrinkFrom int64 // the size from which a file with much free room is made smaller at open
	files      files
	// OpenLog returns the log. If nil it is in tables of the database file.
	OpenLog func(writer *sqlite.Conn, readers *Readers) (Log, error)
}

const (
	defaultRetainFor      = time.Hour
	defaultRetainOps      = 1_000_000
	defaultRetainBytes    = 1 << 30
	defaultTrimEvery      = time.Minute
	defaultStatementLimit = 2 * time.Second
	defaultOperationLimit = 3 * time.Second
	defaultSharedLimit    = 50 * time.Millisecond
	// readerCount is how many log reads, look-ups and hash runs go on at once.
	readerCount = 4
)

// Store is the database with its log. Its methods are safe for concurrent use.
type Store struct {
	cfg      Config
	log      Log
	readers  *Readers
	lock     *os.File
	writing  chan struct{} // holds one token: who takes it owns conn and calls log's writing methods
	copying  chan struct{} // a token for each snapshot that is read
	conn     *sqlite.Conn
	capture  *sqlite.Capture // on conn
	doubtful bool            // guarded by writing: the outcome of the last commit, claim or trim is not known
	lastAt   time.Time
	tables   atomic.Int64 // bytes of tables and indexes after the last step
	outgrew  atomic.Bool  // an operation was refused since the tables would have grown too large
	near     bool         // of the trimming goroutine: tables is near its limit
	full     atomic.Bool  // the last step that would write found no room on the disk
	sizes    sizes
	hooks    hooks
	cluster  dbaas.ClusterID // not changed after Open
	reserve  reserve         // guarded by writing, as fullAt
	fullAt   int64           // bytes of tables when the disk was found full last

	mu      sync.RWMutex // guards what follows; taken after writing
	index   index
	bounds  Bounds
	changed chan struct{} // closed and replaced when the head moves
	tooLong chan struct{} // gets a token when the log must be trimmed at once

	stop context.CancelFunc
	done chan struct{} // closed when the trimming goroutine has ended
}

// hooks are called at the named points of a commit, in tests only. An error
// stands for the failure of the step that follows.
type hooks struct {
	beforeAppend, beforeCommit, afterCommit hook
}

type hook func() error

func (h hook) call() error {
	if h == nil {
		return nil
	}
	return h()
}

// Open opens the database in cfg.Dir, makes it with the application's schema if
// there is none, brings it up to its log, and starts trimming. The caller closes it.
//
// It returns CodeConflict when another process has the directory open, and
// CodeInternal when the file is damaged, somebody else's, or gone from where a database was.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	s := &Store{
		cfg: cfg.withDefaults(), writing: make(chan struct{}, 1), copying: make(chan struct{}, maxSnapshots),
		changed: make(chan struct{}), tooLong: make(chan struct{}, 1), done: make(chan struct{}), sizes: defaultSizes(),
		index: index{places: map[dbaas.OpID]place{}},
	}
	if cfg.Limits.Answer > 0 {
		s.sizes.result = min(s.sizes.result, cfg.Limits.Answer)
	}
	began := time.Now()
	if err := s.open(ctx); err != nil {
		_ = s.closeFiles() // the first error is the one to tell.
		return nil, fmt.Errorf("open store: %w", err)
	}
	s.cfg.Log.InfoContext(ctx, "store opened", logkey.Cluster, s.cluster, logkey.Seq, s.bounds.Head.Seq, logkey.Epoch, s.bounds.Head.Epoch,
		logkey.Count, s.index.ops, logkey.Took, time.Since(began))
	trimming, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stop = stop
	go s.trimAlways(trimming)
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
		cfg.files = files{sync: syncPath, rename: os.Rename}
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
	if cfg.OpenLog == nil {
		cfg.OpenLog = func(writer *sqlite.Conn, readers *Readers) (Log, error) { return NewTableLog(writer, readers) }
	}
	return cfg
}

func (s *Store) path() string { return filepath.Join(s.cfg.Dir, FileName) }

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
	if err = s.cleanSnapshots(); err != nil {
		return err
	}
	s.reserve = reserve{path: filepath.Join(s.cfg.Dir, "persdb.reserve"), size: s.cfg.Reserve, free: func() int64 { return freeBytes(s.cfg.Dir) }}
	if err = s.reserve.keep(); err != nil {
		s.cfg.Log.WarnContext(ctx, "no room is kept back for a full disk", logkey.Error, err)
	}
	if err = s.shrink(ctx); err != nil {
		s.cfg.Log.WarnContext(ctx, "database file not made smaller", logkey.Error, err)
	}
	if s.conn, err = sqlite.Open(s.path(), sqlite.Options{
		Durable: true, ForeignKeys: true, Triggers: true, Protected: protected(), Limits: s.cfg.Limits, OnStuck: s.cfg.OnStuck,
	}); err != nil {
		return err
	}
	s.capture = s.conn.NewCapture(s.sizes.entry)
	if err = s.conn.QuickCheck(); err != nil {
		return damaged(err)
	}
	// A process that died may have left a commit in the WAL that it had not synced. Nobody is told of it before it is durable.
	if err = errors.Join(s.cfg.files.sync(s.path()+"-wal"), s.cfg.files.sync(s.cfg.Dir)); err != nil {
		return err
	}
	if err = s.create(); err != nil {
		return err
	}
	if err = s.markMade(); err != nil {
		return err
	}
	return s.load(ctx)
}

// Close ends trimming, waits for a commit that is running, and closes the files.
// The Store's other methods must not be called any more.
func (s *Store) Close() error {
	s.stop()
	<-s.done
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
	if s.lock != nil {
		errs = append(errs, s.lock.Close())
	}
	return errors.Join(errs...)
}

// write runs fn while it owns the connection. It waits for its turn until ctx
// ends; then nothing was done.
func (s *Store) write(ctx context.Context, fn func() error) error {
	select {
	case s.writing <- struct{}{}:
	case <-ctx.Done():
		return dbaas.WrapError(dbaas.CodeUnavailable, "the database is busy", ctx.Err())
	}
	defer func() { <-s.writing }()
	if s.doubtful {
		if err := s.settle(ctx); err != nil {
			return dbaas.WrapError(dbaas.CodeUnavailable, "the outcome of the last step is not known yet", err)
		}
	}
	if s.short() {
		s.noteRoom(ctx)
	}
	return s.noteFull(ctx, fn())
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
		default: // trimming is under way.
		}
	}
}

// Claim hands out a new epoch to a new master. When it returns, the epoch is on
// disk and no older one can commit any more.
func (s *Store) Claim(ctx context.Context) (dbaas.Epoch, error) {
	var epoch dbaas.Epoch
	err := s.write(ctx, func() error {
		var err error
		if epoch, err = s.log.Claim(ctx); err != nil {
			s.doubtful = dbaas.CodeOf(err) == dbaas.CodeUnknown
			return unavailable(err)
		}
		s.noteRoom(ctx)
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

// unavailable keeps the codes that a caller branches on and turns the rest into
// CodeUnavailable: surely not done.
func unavailable(err error) error {
	switch dbaas.CodeOf(err) { //nolint:exhaustive // all others are one.
	case dbaas.CodeFull, dbaas.CodeStaleEpoch, dbaas.CodeUnavailable, dbaas.CodeUnknown:
		return err
	}
	return dbaas.WrapError(dbaas.CodeUnavailable, "the database could not do it now", err)
}
