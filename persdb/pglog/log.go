// Package pglog is persdb's commit log in a PostgreSQL database: a commitlog.Log whose entries are on two machines when
// they count as stored. DESIGN.md describes it.
package pglog

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/wait"
	"rideshare/persdb/commitlog"
)

// Config holds the settings of a Log. URL and Log are required.
type Config struct {
	// URL names the servers, of which one is the primary, the user and the database:
	// postgres://user@host1:5432,host2:5432/database. It has no password.
	URL string
	// PasswordFile holds the user's password and is read at each connect. If empty, pgx looks for a password in
	// PGPASSFILE and PGPASSWORD.
	PasswordFile string
	// Single accepts a server that has no synchronous standby: entries are then on one machine.
	Single bool
	// Log receives a line when the primary changes or is not found.
	Log *slog.Logger

	// These replace constants: hold, least, connectLimit, silence.
	hold, least, connect, silence time.Duration
}

// Log is a commitlog.Log in a PostgreSQL database. Its methods are safe for concurrent use.
type Log struct {
	cfg     Config
	servers []*server
	cluster string
	owner   string          // names this process in the log
	ctx     context.Context // it ends with Close
	stop    context.CancelFunc
	sent    atomic.Uint64 // how many statements were sent
	readers chan *reader  // the connections for Read that are free

	// turn holds one token. Its holder owns the fields up to mu.
	turn    chan struct{}
	session *session // nil if there is none
	active  bool     // no other process has taken over, as far as this one knows: sessions have a fence
	lost    time.Time
	first   int // index of the server to try first: the primary, as far as is known
	owed    int // bytes of an append whose outcome is unknown
	last    outcome
	failing wait.Streak

	mu sync.Mutex // guards at
	at place
}

// outcome is the result of the newest statement that says whether this process can still write.
type outcome struct {
	number uint64 // the statement's place among those that were sent
	bounds commitlog.Bounds
	err    error
}

// place says where entries are read, and up to which seq they count as stored.
type place struct {
	from    *server
	session uint64 // the number of the session that found the server
	stored  dbaas.Seq
	epoch   dbaas.Epoch
	over    context.Context // it ends when a newer session is found: the server may be paused, and reads go to another one
	end     context.CancelFunc
}

// readerCount is how many reads run at the same time.
const readerCount = 4

// Open connects to the primary among the servers and creates the log's tables where they are missing. It waits until
// there is a primary, or ctx ends. CodeInvalid and CodeInternal mean that waiting does not help: the settings of a server
// are refused, or the log is of another cluster. The caller closes the log.
func Open(ctx context.Context, cfg Config, cluster dbaas.ClusterID) (*Log, error) {
	servers, err := parse(cfg)
	if err != nil {
		return nil, err
	}
	l := &Log{
		cfg: cfg, servers: servers, cluster: cluster.String(), owner: rand.Text(), active: true,
		turn: make(chan struct{}, 1), readers: make(chan *reader, readerCount),
	}
	l.ctx, l.stop = context.WithCancel(context.WithoutCancel(ctx))
	l.at.over, l.at.end = context.WithCancel(l.ctx)
	for range readerCount {
		l.readers <- &reader{}
	}
	backoff := wait.Backoff{First: 100 * time.Millisecond, Cap: 2 * time.Second, Jitter: 0.5}
	for {
		if err = l.ensure(ctx, true); err == nil {
			return l, nil
		}
		if final(err) || !backoff.Wait(ctx) {
			return nil, errors.Join(fmt.Errorf("open log: %w", err), l.Close())
		}
	}
}

// final reports whether an error of Open is permanent, so that retrying does not help.
func final(err error) bool {
	code := dbaas.CodeOf(err)
	return code == dbaas.CodeInvalid || code == dbaas.CodeInternal
}

// Close implements commitlog.Log.
func (l *Log) Close() error {
	l.stop()
	for range readerCount {
		(<-l.readers).close()
	}
	l.turn <- struct{}{} // is not given back: nothing runs any more.
	l.leave()
	l.drop(nil)
	return nil
}

// take takes the turn. Without an error the caller gives it back.
func (l *Log) take(ctx context.Context) error {
	select {
	case l.turn <- struct{}{}:
	case <-l.ctx.Done():
		return dbaas.Errorf(dbaas.CodeUnavailable, "the log is closed")
	case <-ctx.Done():
		return dbaas.WrapError(dbaas.CodeUnavailable, "the log is busy", ctx.Err())
	}
	if l.ctx.Err() != nil || ctx.Err() != nil {
		l.give()
		return dbaas.Errorf(dbaas.CodeUnavailable, "the log is closed, or the caller has gone")
	}
	return nil
}

func (l *Log) give() { <-l.turn }

// Claim implements commitlog.Log.
func (l *Log) Claim(ctx context.Context) (dbaas.Epoch, error) {
	if err := l.take(ctx); err != nil {
		return 0, err
	}
	defer l.give()
	a, err := l.run(ctx, 0, claim)
	if err != nil {
		return 0, fmt.Errorf("claim epoch: %w", err)
	}
	return dbaas.Epoch(a.value), nil
}

// Append implements commitlog.Log.
func (l *Log) Append(ctx context.Context, r commitlog.Record) error {
	if err := l.take(ctx); err != nil {
		return err
	}
	defer l.give()
	w, e := commitlog.RowOf(&r), &r.Entry
	a, err := l.run(ctx, len(w.Operations)+len(w.Changes), appendNext,
		number(w.Seq), number(w.Epoch), number(w.At), number(w.Sum), w.Operations, w.Changes)
	switch {
	case err != nil:
		return fmt.Errorf("append entry %d: %w", e.Seq, err)
	case a.done:
		return nil
	case a.epoch != e.Epoch:
		return fmt.Errorf("append entry %d: epoch %d, newest is %d: %w", e.Seq, e.Epoch, a.epoch, dbaas.ErrStaleEpoch)
	case a.head+1 != e.Seq:
		return dbaas.Errorf(dbaas.CodeConflict, "entry %d does not follow the log's head %d", e.Seq, a.head)
	}
	return dbaas.Errorf(dbaas.CodeUnavailable, "entry %d was not taken by the log, and can be sent again", e.Seq)
}

// Trim implements commitlog.Log.
func (l *Log) Trim(ctx context.Context, seq dbaas.Seq, size int64) error {
	if err := l.take(ctx); err != nil {
		return err
	}
	defer l.give()
	if _, err := l.run(ctx, int(size), trim, number(int64(seq))); err != nil {
		return fmt.Errorf("trim log up to %d: %w", seq, err)
	}
	return nil
}

// Head implements commitlog.Log. It needs a statement that was sent after the call began and succeeded. Concurrent calls
// share one such statement; if it fails, all of them fail.
func (l *Log) Head(ctx context.Context) (commitlog.Bounds, error) {
	began := l.sent.Load()
	if err := l.take(ctx); err != nil {
		return commitlog.Bounds{}, err
	}
	defer l.give()
	if l.last.number > began {
		return l.last.bounds, l.last.err
	}
	a, err := l.run(ctx, 0, barrier)
	if dbaas.IsNotActive(err) {
		return commitlog.Bounds{}, err
	}
	if err != nil {
		return commitlog.Bounds{}, dbaas.WrapError(dbaas.CodeUnavailable, "the log cannot be reached", err)
	}
	return a.bounds(), nil
}

// run runs a statement of the session, and opens a session if there is none. params are its parameters after the
// fence; size is their size in bytes. The caller has the turn.
//
// Errors are *dbaas.Error: CodeUnknown if the statement may have been, or may still be, carried out; otherwise it was
// not. Without an error the statement was done, except an append with answer.done false, which found another epoch or
// head. If any other statement returns no row, the settings were wrong when it ran, even if the look finds them right.
func (l *Log) run(ctx context.Context, size int, s statement, params ...[]byte) (answer, error) {
	for range 2 {
		if err := l.ensureActive(ctx); err != nil {
			return answer{}, err
		}
		a, err := l.send(l.session, size, s, append([][]byte{number(int64(l.session.fence))}, params...)...)
		switch {
		case err != nil:
			return answer{}, err
		case a.done || s == appendNext && a.guarded && a.fence == l.session.fence:
			return a, nil
		case a.guarded && a.owner != l.owner:
			l.lose(ctx)
			return answer{}, dbaas.ErrNotActive
		}
		l.drop(nil) // the next session says what is wrong.
	}
	return answer{}, dbaas.Errorf(dbaas.CodeUnavailable, "the log refused the statement twice: its settings change")
}

// ensureActive opens a session if there is none. It returns ErrNotActive if another process has taken over. The caller has
// the turn.
func (l *Log) ensureActive(ctx context.Context) error {
	if err := l.ensure(ctx, false); err != nil {
		return err
	}
	if !l.active {
		return dbaas.ErrNotActive
	}
	return nil
}

// send runs a statement on a session and notes its outcome. A session on which a statement has failed is over.
func (l *Log) send(on *session, size int, s statement, params ...[]byte) (answer, error) {
	n := l.sent.Add(1)
	a, err := on.step(limit(on.least, size+l.owed), s, params...)
	if err == nil && a.done {
		err = l.note(&a.logView)
	}
	switch {
	case err != nil:
		l.last = outcome{number: n, err: dbaas.WrapError(dbaas.CodeUnavailable, "the log cannot be reached", err)}
		if dbaas.CodeOf(err) == dbaas.CodeUnknown {
			l.owed = max(l.owed, size)
		}
		on.close()
		l.drop(err)
		return answer{}, err
	case a.done:
		l.last, l.owed = outcome{number: n, bounds: a.bounds()}, 0
	}
	return a, nil
}

// note records what is proven to be stored. It returns an error if the log lacks what was proven before.
func (l *Log) note(a *logView) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a.head < l.at.stored || a.epoch < l.at.epoch {
		return dbaas.Errorf(dbaas.CodeInternal, "the log ends at entry %d and epoch %d, but entry %d and epoch %d were stored: a server without the newest entries was promoted; promote the one that has them",
			a.head, a.epoch, l.at.stored, l.at.epoch)
	}
	l.at.stored, l.at.epoch = a.head, a.epoch
	return nil
}

// drop ends the session. err is the error of its last statement, or nil.
func (l *Log) drop(err error) {
	if l.session != nil {
		l.session.close()
		l.session = nil
		l.servers[l.first].heard(err)
	}
}

func number(v int64) []byte { return strconv.AppendInt(nil, v, 10) }
