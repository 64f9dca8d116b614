package commitlog

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/logkey"
	"rideshare/internal/replication"
	"rideshare/internal/wait"
)

// followEvery is how often an inactive process looks for new entries.
const followEvery = 200 * time.Millisecond

// followedFor is how long an inactive process treats what it has read of the log as the whole log.
const followedFor = 5 * followEvery

// checkEvery: an active process checks after every checkEvery times followEvery whether it still is the active one.
const checkEvery = 5

// sharing is the part of a Store that only a shared log needs.
type sharing struct {
	inactive  atomic.Bool           // another process is the active one
	followed  atomic.Pointer[error] // how the last attempt to follow the log ended
	newest    atomic.Int64          // Config.Elapsed at the beginning of the last attempt that succeeded
	following sync.WaitGroup
}

// Active reports whether this process is the active one of its log, as far as it knows. The process of a log that is
// not shared is always active.
func (s *Store) Active() bool { return !s.inactive.Load() }

// Ready returns an error unless this process is active and can commit, or is inactive and follows the log.
func (s *Store) Ready(ctx context.Context) (dbaas.Readiness, error) {
	head, err := s.Head(ctx)
	if !dbaas.IsNotActive(err) {
		return dbaas.Readiness{Head: head, Active: true}, err
	}
	if failed := s.notFollowed(); failed != nil {
		return dbaas.Readiness{}, unread(failed)
	}
	return dbaas.Readiness{Head: s.known()}, nil
}

// leftBehind returns ErrNotActive if this process is not the active one and does not follow: it may lack entries, and its tables
// may be older than the log's first entry.
func (s *Store) leftBehind() error {
	if s.inactive.Load() && s.notFollowed() != nil {
		return dbaas.ErrNotActive
	}
	return nil
}

// notFollowed returns nil if this process, which is not the active one, has followed the log within followedFor. An attempt
// that hangs, since its server is paused, has no error yet.
func (s *Store) notFollowed() error {
	if failed := s.followed.Load(); failed != nil && *failed != nil {
		return *failed
	}
	if age := s.cfg.Elapsed() - time.Duration(s.newest.Load()); age > followedFor {
		return dbaas.Errorf(dbaas.CodeUnavailable, "the log was last followed %v ago", age.Round(time.Millisecond))
	}
	return nil
}

// noteActive returns err. If err says that another process is the active one, noteActive also records that.
func (s *Store) noteActive(ctx context.Context, err error) error {
	if dbaas.IsNotActive(err) && !s.inactive.Swap(true) {
		s.cfg.Log.InfoContext(ctx, "not active any more, following the log", logkey.Seq, s.known().Seq)
	}
	return err
}

// certain returns an error unless this process is the active one, as far as it knows, and the outcome of its last step is
// known. The caller owns the connection.
func (s *Store) certain(ctx context.Context, ops []dbaas.Operation) error {
	if s.inactive.Load() {
		return s.refused(ops)
	}
	if !s.doubtful {
		return nil
	}
	err := s.noteActive(ctx, s.settle(ctx))
	switch {
	case err == nil:
		return nil
	case dbaas.IsNotActive(err):
		return s.refused(ops)
	}
	return dbaas.WrapError(s.notRun(ops), notSettled, err)
}

const notSettled = "the outcome of the last step is not known yet"

// refused returns the error for operations that reach an inactive process: CodeUnknown if one of them is in its own
// append whose outcome is still unknown.
func (s *Store) refused(ops []dbaas.Operation) error {
	if code := s.notRun(ops); code != dbaas.CodeUnavailable {
		return dbaas.WrapError(code, notSettled, dbaas.ErrNotActive)
	}
	return dbaas.ErrNotActive
}

// exclusive runs fn with the writing token, also in an inactive process.
func (s *Store) exclusive(ctx context.Context, fn func() error) error {
	select {
	case s.writing <- struct{}{}:
	case <-ctx.Done():
		return dbaas.WrapError(dbaas.CodeUnavailable, "the database is busy", ctx.Err())
	}
	defer func() { <-s.writing }()
	return unavailableOrNil(fn())
}

// TakeOver makes this process the active one of a shared log: when it returns nil, all that other processes have stored
// is in the tables, and none of them can store more. In an active process it does nothing.
//
// Most entries are applied before the log changes hands. A failure before that, for example because this process lacks
// entries that were trimmed, leaves the log to the other process. After a later failure no process is active until the
// next TakeOver. Every failure is CodeUnavailable: another code, such as CodeFull, would look like the result of the
// call that requested the takeover, and another process may be able to take over.
func (s *Store) TakeOver(ctx context.Context) error {
	shared, ok := s.log.(SharedLog)
	if !ok {
		return nil
	}
	err := s.takeOver(ctx, shared)
	if err == nil || dbaas.CodeOf(err) == dbaas.CodeUnavailable {
		return err
	}
	return dbaas.WrapError(dbaas.CodeUnavailable, "this persdb cannot take over", err)
}

func (s *Store) takeOver(ctx context.Context, shared SharedLog) error {
	if _, err := s.headOfLog(ctx); !dbaas.IsNotActive(err) {
		return err
	}
	began := time.Now()
	if err := s.follow(ctx, shared); err != nil {
		return err
	}
	return s.exclusive(ctx, func() error {
		if !s.inactive.Load() {
			return nil
		}
		err := shared.TakeOver(ctx)
		if err == nil {
			err = s.settle(ctx)
		}
		if err == nil {
			err = s.checkHistory(ctx)
		}
		if err == nil {
			err = s.catchUp(ctx)
		}
		if err != nil {
			return err
		}
		s.inactive.Store(false)
		s.cfg.Log.InfoContext(ctx, "took over, active", logkey.Seq, s.bounds.Head.Seq, logkey.Epoch, s.bounds.Head.Epoch, logkey.Took, time.Since(began))
		return nil
	})
}

// follow applies the entries that another process has stored.
func (s *Store) follow(ctx context.Context, shared SharedLog) error {
	b, err := shared.Look(ctx)
	if err != nil {
		return err
	}
	return s.exclusive(ctx, func() error {
		if !s.inactive.Load() || b.Head.Seq < s.bounds.Head.Seq || b.Head.Epoch < s.bounds.Head.Epoch { // b is outdated by now.
			return nil
		}
		moved := b.Head.Seq > s.applied
		if err = s.adopt(ctx, b); err == nil && moved {
			err = s.checkHistory(ctx)
		}
		if err == nil {
			err = s.bringUp(ctx)
		}
		if err == nil && moved {
			err = s.measure()
		}
		if dbaas.CodeOf(err) == dbaas.CodeGone {
			return dbaas.WrapError(dbaas.CodeUnavailable, "the log was trimmed beyond what this persdb has: "+rejoin, err)
		}
		return err
	})
}

// rejoin is the next step for a process that was away for longer than the log keeps.
const rejoin = "stop it, put a copy of another stopped persdb's data folder in the place of its own, and start it"

// followAlways follows a shared log, while this process is inactive, until ctx ends.
func (s *Store) followAlways(ctx context.Context) {
	shared, ok := s.log.(SharedLog)
	if !ok {
		return
	}
	var failures wait.Streak
	for n := 0; wait.For(ctx, followEvery); n++ {
		if !s.inactive.Load() {
			if n%checkEvery == 0 {
				_ = s.noteActive(ctx, shared.Check(ctx))
			}
			continue
		}
		began := s.cfg.Elapsed()
		err := s.follow(ctx, shared)
		if s.followed.Store(&err); err == nil {
			s.newest.Store(int64(began))
		}
		switch {
		case err == nil:
			failures.End()
		case ctx.Err() == nil && failures.Fail():
			s.cfg.Log.WarnContext(ctx, "the log cannot be followed, trying again", logkey.Error, err)
		}
	}
}

// fresh reports whether the data folder was made by this start and has no entry.
func (s *Store) fresh() bool {
	lock, err := s.lock.Stat()
	if err != nil || lock.Size() > 0 {
		return false
	}
	position, err := replication.Position(s.conn)
	return err == nil && position.Seq == 0
}

// joinCluster gives a fresh data folder the cluster of its log. If the process dies in between, the next start does it again.
func (s *Store) joinCluster(cluster dbaas.ClusterID) error {
	err := s.conn.BeginWrite()
	if err == nil {
		err = s.conn.Exec("UPDATE rs_cluster SET id=?", dbaas.Text(cluster.String()))
	}
	if err == nil {
		err = s.conn.Commit()
	}
	if err != nil {
		return errors.Join(err, s.conn.End())
	}
	s.cluster = cluster
	return s.syncTables()
}
