// Package replica maintains a worker's copy of the database: it fetches a snapshot from persdb, follows the log over
// syncQ, catches up from persdb's log when entries are missing, and serves readers. Its state is always a prefix of the
// log.
package replica

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/logkey"
	"rideshare/internal/mq"
	"rideshare/internal/sqlite"
	"rideshare/internal/wait"
	"rideshare/internal/wire"
)

// Store is the part of persdb that this package needs.
type Store interface {
	Head(ctx context.Context) (dbaas.Head, error)
	Log(ctx context.Context, after dbaas.Seq, wait time.Duration) (dbaas.Page, error)
	Snapshot(ctx context.Context) (*dbaas.Snapshot, error)
	HashPart(ctx context.Context, from dbaas.HashFrom) (dbaas.HashPart, error)
}

// Config configures a Replica. Dir, Store and Log are required.
type Config struct {
	// Dir is a directory for the replica alone. Files left there by an earlier process are removed.
	Dir   string
	Store Store
	Log   *slog.Logger
	// AntiEntropy is the interval between two comparisons of the position with persdb's head: silence on syncQ does not
	// prove that nothing was committed. It bounds how long a replica lags after a lost broadcast if no reader waits for
	// the position. Default 2 s.
	AntiEntropy time.Duration
	// NudgeAfter is how long a reader waits for a position before the log is read for it. Default 10 ms: a broadcast in
	// flight has arrived by then.
	NudgeAfter time.Duration
	// StoreTimeout bounds one query of persdb's head, and the silence within a page of the log; the whole page may take as
	// long as it needs. After a failed page the next attempt gets twice as long, then four times as long. Default 2 s.
	StoreTimeout time.Duration
	// Backoff is the first wait after a failed call to persdb; it doubles up to AntiEntropy, and to half a second. Default 50 ms.
	Backoff time.Duration
	// Ahead, if set, reports whether another worker that serves reads has applied more than seq. It may take a second.
	Ahead func(ctx context.Context, seq dbaas.Seq) bool
	// VerifyEvery is the interval at which the hash of one part of the tables, about 64 MiB, is compared with persdb's;
	// successive parts are compared in turn. Default 60 s, and longer if hashing would take more than 2 % of the time.
	// Negative means never.
	VerifyEvery time.Duration
	// VerifyTimeout bounds the comparison of one part. Default 20 s.
	VerifyTimeout time.Duration
	// Limits bounds the resources of one client statement; zero fields mean sqlite's defaults.
	Limits sqlite.Limits
	// OnStuck, if set, is called for a statement that cannot be stopped, as sqlite.Options says.
	OnStuck func(sql string)
}

const (
	defaultAntiEntropy   = 2 * time.Second
	defaultNudgeAfter    = 10 * time.Millisecond
	defaultStoreTimeout  = 2 * time.Second
	defaultBackoff       = 50 * time.Millisecond
	defaultVerifyEvery   = time.Minute
	defaultVerifyTimeout = 20 * time.Second
	// maxInbox bounds the number of broadcast entries that wait to be applied, and maxInboxBytes their total size.
	// Entries that do not fit are dropped and read from the log later.
	maxInbox      = 8192
	maxInboxBytes = 64 << 20
	// bindWait bounds how long the first snapshot waits for the subscription to syncQ, so that the log need not be read a
	// second time. A cluster with a silent node binds no queue for some 10 s.
	bindWait = 250 * time.Millisecond
	// longestPause bounds the pause after a failed call of persdb: reads may wait for entries that only the log has.
	longestPause = 500 * time.Millisecond
)

// Replica is the worker's copy of the database. Its methods are safe for concurrent use.
type Replica struct {
	Stats Stats

	config   Config
	progress atomic.Uint64   // see Progress
	unread   atomic.Bool     // the last attempt to read the log failed
	furthest int64           // most bytes received of a snapshot since the last one was installed; belongs to Run
	wake     wait.Token      // Run has work to do
	verify   chan struct{}   // holds a token while a comparison with persdb's hashes runs
	passed   map[string]bool // tables at which verifyAlways has passed over a part; belongs to verifyAlways

	mu         sync.Mutex // guards the fields below
	bound      bool       // syncQ has been bound once
	inbox      []dbaas.Entry
	inboxBytes int
	behind     bool      // the log has, or may have, entries that the replica lacks
	broken     error     // if not nil, a goroutine other than Run's found this reason to discard file
	suspected  time.Time // when a read last had a file discarded
	file       *file
	head       dbaas.Head // position of file
	ready      bool       // file has caught up with the log once
	old        *file      // may be read at oldHead until file is ready; may be nil
	oldHead    dbaas.Head
	lost       chan struct{} // closed when the replica may no longer be read; nil while it may not be read
	changed    wait.Signal

	mode        mode        // as of the last announce
	modeChanged wait.Signal // notified when mode changes
}

// New returns a Replica. Run starts it.
func New(c Config) *Replica {
	c.AntiEntropy = cmp.Or(c.AntiEntropy, defaultAntiEntropy)
	c.NudgeAfter = cmp.Or(c.NudgeAfter, defaultNudgeAfter)
	c.StoreTimeout = cmp.Or(c.StoreTimeout, defaultStoreTimeout)
	c.Backoff = cmp.Or(c.Backoff, defaultBackoff)
	c.VerifyEvery = cmp.Or(c.VerifyEvery, defaultVerifyEvery)
	c.VerifyTimeout = cmp.Or(c.VerifyTimeout, defaultVerifyTimeout)
	return &Replica{config: c, wake: wait.NewToken(), verify: make(chan struct{}, 1), passed: map[string]bool{}}
}

// Subscriber returns the callbacks for the broadcasts of syncQ. The replica also serves without them, from the log.
func (r *Replica) Subscriber() mq.Subscriber {
	return mq.Subscriber{Entry: r.Offer, Gap: r.gap}
}

// gap is called when broadcasts may have been lost, and when the subscription begins.
func (r *Replica) gap() {
	r.mu.Lock()
	r.bound, r.behind = true, true
	r.mu.Unlock()
	r.wake.Give()
}

// Offer passes the frame of an entry that persdb has committed: each broadcast of syncQ, and on a master each entry of
// its own commits. Entries may be reordered, missing or repeated. A frame that cannot be decoded is counted and dropped.
// Offer does not block.
func (r *Replica) Offer(frame []byte) {
	e, err := wire.DecodeEntry(frame)
	if err != nil {
		r.Stats.Malformed.Add(1)
		r.config.Log.Warn("broadcast not understood", logkey.Queue, mq.SyncQ, logkey.Error, err)
		return
	}
	size := 64 + e.Size()
	r.mu.Lock()
	if len(r.inbox) >= maxInbox || r.inboxBytes+size > maxInboxBytes {
		r.Stats.Dropped.Add(1)
		r.behind = true
	} else {
		r.inbox = append(r.inbox, e)
		r.inboxBytes += size
	}
	r.mu.Unlock()
	r.wake.Give()
}

// lag makes Run read the log.
func (r *Replica) lag() {
	r.mu.Lock()
	r.behind = true
	r.mu.Unlock()
	r.wake.Give()
}

// Progress returns a number that grows while the replica comes closer to being readable: with the bytes received of a
// snapshot, with data received of a page of the log, and with each applied entry. After a broken snapshot transfer the
// next attempt adds nothing until it has received more bytes than any attempt before.
func (r *Replica) Progress() uint64 { return r.progress.Load() }

// Run maintains the replica until ctx ends; then it removes the files and returns ctx's error. Any other error means
// that the directory cannot be used.
func (r *Replica) Run(ctx context.Context) error {
	if err := clean(r.config.Dir); err != nil {
		return err
	}
	var watch sync.WaitGroup
	defer watch.Wait()
	defer r.dropOld()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watch.Go(func() { r.watchHead(ctx) })
	watch.Go(func() { r.verifyAlways(ctx) })
	r.waitBound(ctx)
	pause := wait.Backoff{First: r.config.Backoff, Cap: min(r.config.AntiEntropy, longestPause), Jitter: 0.5}
	for generation := 1; ctx.Err() == nil; generation++ {
		f, err := r.install(ctx, generation)
		if err != nil {
			if ctx.Err() == nil {
				r.config.Log.WarnContext(ctx, "snapshot not taken", logkey.Error, err)
			}
			if !isTransient(err) {
				r.dropOld() // the old file may occupy the space that the snapshot needs
			}
			pause.Wait(ctx)
			continue
		}
		r.adopt(f)
		err = r.follow(ctx, f, &pause)
		r.explain(ctx, f, err)
		r.leave(ctx, f, err)
		if ctx.Err() == nil && !errors.Is(err, errBehindLog) {
			pause.Wait(ctx) // repeatedly discarded files must not cause a storm of snapshots
		}
	}
	return ctx.Err()
}

// explain logs why a file cannot continue.
func (r *Replica) explain(ctx context.Context, f *file, err error) {
	switch {
	case ctx.Err() != nil:
	case errors.Is(err, errBehindLog):
		r.config.Log.InfoContext(ctx, "replica is behind the log", logkey.Seq, f.head.Seq, logkey.Error, err)
	default:
		r.Stats.Diverged.Add(1)
		r.config.Log.ErrorContext(ctx, "replica discarded", logkey.Seq, f.head.Seq, logkey.Error, err)
	}
}

// waitBound waits for the subscription, for at most bindWait. If the subscription is bound later, gap makes follow read the log
// again.
func (r *Replica) waitBound(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, bindWait)
	defer cancel()
	for {
		r.mu.Lock()
		bound := r.bound
		r.mu.Unlock()
		if bound {
			return
		}
		select {
		case <-r.wake:
		case <-ctx.Done():
			return
		}
	}
}
