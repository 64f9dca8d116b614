package pglog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/logkey"
	"rideshare/persdb/commitlog"
)

// hold is how long a process that has lost the log refuses to take it back. So if callers disagree about which
// process is active, each process serves for at least that long.
const hold = time.Second

// ensure opens a session if there is none, on the first server that serves as the primary. create also creates missing
// tables. The caller has the turn, or is Open.
func (l *Log) ensure(ctx context.Context, create bool) error {
	if l.session != nil {
		return nil
	}
	var errs []error
	var silent []int
	for i := range l.servers {
		at := (l.first + i) % len(l.servers)
		if len(l.servers) > 1 && l.servers[at].isSilent() {
			silent = append(silent, at)
			continue
		}
		err := l.use(ctx, at, create)
		if err == nil {
			return nil
		}
		errs = append(errs, err)
		if ctx.Err() != nil { // a silent server must not take the time of the next call, too
			l.first = (at + 1) % len(l.servers)
			break
		}
		l.servers[at].heard(err)
	}
	for _, at := range silent {
		err := l.useBriefly(ctx, at, create)
		if err == nil {
			return nil
		}
		errs = append(errs, err)
	}
	err := errors.Join(errs...)
	if l.failing.Fail() {
		l.cfg.Log.WarnContext(ctx, "log's primary not found, trying again", logkey.Error, err)
	}
	return dbaas.WrapError(worst(errs), "no server of the log can be used", err)
}

// use opens a session on a server.
func (l *Log) use(ctx context.Context, at int, create bool) error {
	if err := l.open(ctx, l.servers[at], create); err != nil {
		return fmt.Errorf("%s: %w", l.servers[at].address, err)
	}
	l.first = at
	if l.failing.End() > 0 || create {
		l.cfg.Log.InfoContext(ctx, "log's primary found", logkey.Addr, l.servers[at].address)
	}
	return nil
}

// useBriefly is use for a server that was silent: the server may have stalled for a moment only. It takes little time, since
// another server may become the primary meanwhile.
func (l *Log) useBriefly(ctx context.Context, at int, create bool) error {
	ctx, cancel := context.WithTimeout(ctx, l.servers[at].limit/silentShare)
	defer cancel()
	return l.use(ctx, at, create)
}

// worst returns one code for the errors of several servers: that of the first permanent one, otherwise CodeUnavailable.
func worst(errs []error) dbaas.Code {
	for _, err := range errs {
		if final(err) {
			return dbaas.CodeOf(err)
		}
	}
	return dbaas.CodeUnavailable
}

// open opens a session on a server. The session gets a fence if this process is the active one; otherwise it only reads.
func (l *Log) open(ctx context.Context, at *server, create bool) error {
	s, err := at.begin(ctx, l.cfg.Single, create)
	if err != nil {
		return err
	}
	if l.active {
		if l.active, err = l.enter(s, create, false); err != nil {
			l.active = true // as far as this process knows.
		} else if !l.active && !create {
			l.lose(ctx)
		}
	}
	if err == nil && !l.active {
		err = l.view(s)
	}
	if err != nil {
		s.close()
		return err
	}
	l.session = s
	l.mu.Lock()
	defer l.mu.Unlock()
	l.at.end()
	l.at.from, l.at.session = at, l.at.session+1
	l.at.over, l.at.end = context.WithCancel(l.ctx)
	return nil
}

// enter gives a session a fence, which makes this process the owner of the log. It enters a log without an owner only if
// free is set, and a log of another owner only if take is set. Otherwise it returns false, since another process may have
// stored entries that the Store must read first.
func (l *Log) enter(s *session, free, take bool) (bool, error) {
	a, err := l.send(s, 0, enter, []byte(l.cluster), []byte(l.owner), strconv.AppendBool(nil, free), strconv.AppendBool(nil, take))
	switch {
	case dbaas.CodeOf(err) == dbaas.CodeUnknown: // no caller could see an effect.
		return false, dbaas.WrapError(dbaas.CodeUnavailable, "no standby has confirmed the session in time", err)
	case err != nil:
		return false, err
	case a.done:
		s.fence = a.value
		return true, nil
	case !a.guarded || a.owner == l.owner:
		return false, dbaas.Errorf(dbaas.CodeUnavailable, "the settings of the server have changed in the meantime")
	}
	return false, l.checkCluster(&a.logView)
}

// view proves what the log holds, on a session without a fence.
func (l *Log) view(s *session) error {
	seen, err := s.prove()
	if err == nil {
		err = l.checkCluster(&seen)
	}
	if err == nil {
		err = l.note(&seen)
	}
	return err
}

// checkCluster returns an error if the log is of another cluster than the data folder.
func (l *Log) checkCluster(seen *logView) error {
	if seen.cluster == l.cluster {
		return nil
	}
	other := &commitlog.OtherClusterError{}
	if err := other.Log.UnmarshalText([]byte(seen.cluster)); err != nil {
		return dbaas.WrapError(dbaas.CodeInternal, "the log has no cluster id", err)
	}
	message := "the log is of cluster " + seen.cluster + ", the data folder is of cluster " + l.cluster + ": use the data folder and the log that belong together"
	return dbaas.WrapError(dbaas.CodeInternal, message, other)
}

// lose makes this process inactive. The connection stays open for looks at the log.
func (l *Log) lose(ctx context.Context) {
	l.active, l.lost = false, time.Now()
	if l.session != nil {
		l.session.fence = 0
	}
	l.cfg.Log.WarnContext(ctx, "another persdb has taken over the log: this persdb is no longer active")
}

// leave removes the owner, so that the next process that opens the log becomes active. Nothing depends on its success.
func (l *Log) leave() {
	if l.session != nil && l.active {
		_, _ = l.send(l.session, 0, release, number(int64(l.session.fence)))
	}
}

// TakeOver implements commitlog.SharedLog.
func (l *Log) TakeOver(ctx context.Context) error {
	if err := l.take(ctx); err != nil {
		return err
	}
	defer l.give()
	if _, err := l.run(ctx, 0, barrier); !dbaas.IsNotActive(err) {
		return err // nil: this process is active already; otherwise the log cannot be reached.
	}
	if !l.lost.IsZero() && time.Since(l.lost) < cmp.Or(l.cfg.hold, hold) {
		return dbaas.ErrNotActive
	}
	entered, err := l.enter(l.session, true, true)
	if err != nil || !entered {
		l.drop(err)
		return cmp.Or(err, error(dbaas.ErrNotActive))
	}
	l.active = true
	l.cfg.Log.InfoContext(ctx, "log taken over", "fence", l.session.fence, logkey.Addr, l.servers[l.first].address)
	return nil
}

// checkTime bounds how long a check holds the turn to open a session.
const checkTime = 2 * time.Second

// Check implements commitlog.SharedLog.
func (l *Log) Check(ctx context.Context) error {
	if err := l.take(ctx); err != nil {
		return err
	}
	defer l.give()
	if !l.active {
		return dbaas.ErrNotActive
	}
	if l.session == nil { // an idle process, whose session was lost, must learn of a takeover, too.
		limited, cancel := context.WithTimeout(ctx, checkTime)
		defer cancel()
		return l.ensureActive(limited)
	}
	over := time.AfterFunc(l.session.least, l.session.close)
	defer over.Stop()
	seen, err := l.session.look("")
	switch {
	case err != nil:
		l.drop(err)
		return dbaas.WrapError(dbaas.CodeUnavailable, "the log cannot be reached", err)
	case seen.owner != l.owner:
		l.lose(ctx)
		return dbaas.ErrNotActive
	}
	return nil
}

// Look implements commitlog.SharedLog.
func (l *Log) Look(ctx context.Context) (commitlog.Bounds, error) {
	if err := l.take(ctx); err != nil {
		return commitlog.Bounds{}, err
	}
	defer l.give()
	if err := l.ensure(ctx, false); err != nil {
		return commitlog.Bounds{}, err
	}
	seen, err := l.session.prove()
	if err == nil {
		err = l.note(&seen)
	}
	if err != nil {
		l.drop(err)
		return commitlog.Bounds{}, err
	}
	return seen.bounds(), nil
}
