// Package commitlog is the only truth of the system: it owns the durable database
// file and decides, one batch at a time, which operations take effect, in which
// order, and exactly once. It stands at the end of the write path, below persdb's
// HTTP server, and at the start of what replicas apply. DESIGN.md has the whole story.
package commitlog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
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
	// Retain bounds the log; an hour and 1,000,000 operations where zero.
	Retain Retention
	// TrimEvery is the pause between two looks at the bounds; a minute if zero, never if negative.
	TrimEvery time.Duration
	// StatementLimit is how long one statement may run before it fails alone; 5 s
	// if zero, the time after which no caller waits any more.
	StatementLimit time.Duration
	// Log gets life-cycle lines and failures; nothing is logged if nil.
	Log *slog.Logger
	// OnCommit, if set, is told of every call of Commit: how many operations, how it ended and how
	// long it took. OnSync is told how long COMMIT alone took, which is the fsync. Neither may block.
	OnCommit func(operations int, outcome dbaas.Code, took time.Duration)
	OnSync   func(took time.Duration)
	// Now is the clock; time.Now if nil.
	Now func() time.Time
	// OpenLog returns the log. If nil it is in tables of the database file.
	OpenLog func(writer *sqlite.Conn, readers *Readers) (Log, error)
}

const (
	defaultRetainFor      = time.Hour
	defaultRetainOps      = 1_000_000
	defaultTrimEvery      = time.Minute
	defaultStatementLimit = 5 * time.Second
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
	doubtful bool // guarded by writing: the outcome of the last commit is not known
	lastAt   time.Time
	sizes    sizes
	hooks    hooks

	mu      sync.RWMutex // guards what follows; taken after writing
	index   index
	bounds  Bounds
	changed chan struct{} // closed and replaced when the head moves

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
// CodeInternal when the file is damaged.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	s := &Store{
		cfg: cfg.withDefaults(), writing: make(chan struct{}, 1), copying: make(chan struct{}, maxSnapshots),
		changed: make(chan struct{}), done: make(chan struct{}), sizes: defaultSizes(),
		index: index{places: map[dbaas.OpID]place{}},
	}
	began := time.Now()
	if err := s.open(ctx); err != nil {
		_ = s.closeFiles() // the first error is the one to tell.
		return nil, fmt.Errorf("open store: %w", err)
	}
	s.cfg.Log.InfoContext(ctx, "store opened", logkey.Seq, s.bounds.Head.Seq, logkey.Epoch, s.bounds.Head.Epoch,
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
	if cfg.TrimEvery == 0 {
		cfg.TrimEvery = defaultTrimEvery
	}
	if cfg.StatementLimit == 0 {
		cfg.StatementLimit = defaultStatementLimit
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
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
	if err = s.cleanSnapshots(); err != nil {
		return err
	}
	if s.conn, err = sqlite.Open(s.path(), sqlite.Options{Durable: true, ForeignKeys: true, Triggers: true}); err != nil {
		return err
	}
	if err = s.conn.QuickCheck(); err != nil {
		return err
	}
	if err = s.create(); err != nil {
		return err
	}
	return s.load(ctx)
}

// create makes the tables and opens the log, in one transaction, so that a death
// on the way leaves an empty file and not half a schema.
func (s *Store) create() error {
	if err := s.conn.BeginWrite(); err != nil {
		return err
	}
	defer func() { _ = s.conn.End() }() // after Commit it does nothing.
	tables, err := s.conn.Tables()
	if err != nil {
		return err
	}
	if err = s.conn.CreatePosition(); err != nil {
		return err
	}
	position, err := s.conn.Position()
	if err != nil {
		return err
	}
	if len(tables) == 0 && position.Seq == 0 { // later an empty schema is what clients made of it.
		for _, sql := range application {
			if err = s.conn.Exec(sql); err != nil {
				return fmt.Errorf("create schema: %w", err)
			}
		}
	}
	if err = s.conn.Commit(); err != nil {
		return err
	}
	if s.readers, err = OpenReaders(s.path(), readerCount); err != nil {
		return err
	}
	if err = s.conn.BeginWrite(); err != nil {
		return err
	}
	if s.log, err = s.cfg.OpenLog(s.conn, s.readers); err != nil {
		return err
	}
	return s.conn.Commit()
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
			return dbaas.WrapError(dbaas.CodeUnavailable, "the last commit's outcome is not known yet", err)
		}
	}
	return fn()
}

// moveTo publishes a new head. The caller holds mu.
func (s *Store) moveTo(b Bounds) {
	if b.Head.Seq != s.bounds.Head.Seq {
		close(s.changed)
		s.changed = make(chan struct{})
	}
	s.bounds = b
}

// Claim hands out a new epoch to a new master. When it returns, the epoch is on
// disk and no older one can commit any more.
func (s *Store) Claim(ctx context.Context) (dbaas.Epoch, error) {
	var epoch dbaas.Epoch
	err := s.write(ctx, func() error {
		var err error
		if epoch, err = s.log.Claim(ctx); err != nil {
			return unavailable(err)
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

// unavailable keeps the codes that a caller branches on and turns the rest into
// CodeUnavailable: surely not done.
func unavailable(err error) error {
	switch dbaas.CodeOf(err) { //nolint:exhaustive // all others are one.
	case dbaas.CodeFull, dbaas.CodeStaleEpoch, dbaas.CodeUnavailable, dbaas.CodeUnknown:
		return err
	}
	return dbaas.WrapError(dbaas.CodeUnavailable, "the database could not do it now", err)
}
