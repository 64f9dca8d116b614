package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"rideshare/internal/coord"
	"rideshare/internal/logkey"
	"rideshare/internal/wait"
)

const (
	// askLeaderEvery is how often a standby asks the leader for a sign of life.
	askLeaderEvery = 300 * time.Millisecond
	// leaderTimeout is how long the leader's answer may take.
	leaderTimeout = time.Second
	// leaderPatience is how long the leader must have been silent before a standby ends its term.
	leaderPatience = 2 * time.Second
	// lastPatience bounds the patience, which doubles each time that this standby ends a term, until a leader answers.
	lastPatience = 5 * time.Minute
)

// errOwnURL replaces the answer of a leader that has this orchestrator's own URL: an earlier process, whose session has not
// ended yet. If another orchestrator has the same URL by mistake, it loses the lead less and less often.
var errOwnURL = errors.New("its URL is that of this orchestrator")

// leaderWatch is what a standby knows of the leader.
type leaderWatch struct {
	term     coord.Leader
	heard    time.Time // when the leader was last asked and answered, or first asked in this term
	asked    time.Time // when the last question ended
	patience time.Duration
}

// watchLeader asks the leader for signs of life until ctx ends, while this orchestrator is a standby. It ends the term of
// a leader that is silent for too long, without waiting for the end of its session, or that offers the lead.
func (l *Loop) watchLeader(ctx context.Context) {
	w := leaderWatch{patience: leaderPatience}
	for wait.For(ctx, askLeaderEvery) {
		session := l.currentSession()
		if session != nil && !l.isLeading() {
			l.askLeader(ctx, session, &w)
		}
	}
}

// askLeader asks once. The coordinator's answers prove that this orchestrator's own session lives: first the leader's name,
// later the end of the leader's term. Without them this orchestrator may be cut off, and not the leader.
func (l *Loop) askLeader(ctx context.Context, session coord.Session, w *leaderWatch) {
	began := l.cfg.Now()
	callCtx, cancel := context.WithTimeout(ctx, l.cfg.step())
	leader, err := session.Leader(callCtx)
	cancel()
	if err != nil {
		return
	}
	name, offers := strings.CutPrefix(leader.Name, offered)
	if offers && l.askStore(ctx) == nil {
		l.takeOver(ctx, session, leader, errOffered)
		return
	}
	if l.cfg.LeaderAnswers == nil || !strings.Contains(name, "://") {
		return
	}
	interrupted := began.Sub(w.asked) > 2*(askLeaderEvery+leaderTimeout)
	if leader != w.term || interrupted {
		w.term, w.heard = leader, began
	}
	if err = errOwnURL; name != l.cfg.Advertise {
		callCtx, cancel = context.WithTimeout(ctx, leaderTimeout)
		err = l.cfg.LeaderAnswers(callCtx, name)
		cancel()
	}
	now := l.cfg.Now()
	w.asked = now
	switch {
	case ctx.Err() != nil:
	case now.Sub(began) > 2*(l.cfg.step()+leaderTimeout): // this process stood still
		w.heard = now
	case err == nil:
		w.heard, w.patience = began, leaderPatience
	case now.Sub(w.heard) >= w.patience:
		silent := fmt.Errorf("it was silent for %v: %w", now.Sub(w.heard), err)
		if l.takeOver(ctx, session, w.term, silent) {
			*w = leaderWatch{patience: min(2*w.patience, lastPatience)}
		}
	}
}

// takeOver ends the leader's term and begins this orchestrator's own. The next pass leads.
func (l *Loop) takeOver(ctx context.Context, session coord.Session, leader coord.Leader, why error) bool {
	callCtx, cancel := context.WithTimeout(ctx, l.cfg.step())
	defer cancel()
	log := l.cfg.Log.With(logkey.Addr, leader.Name, logkey.Reason, why)
	leads, err := session.TakeOver(callCtx, leader, l.leadsAs())
	switch {
	case err != nil:
		log.WarnContext(ctx, "lead not taken over", logkey.Error, err)
	case leads:
		log.WarnContext(ctx, "lead taken over from another orchestrator")
		l.Wake()
	}
	return leads
}

// leadsAs returns the name under which this orchestrator leads: its URL, if it has one.
func (l *Loop) leadsAs() string { return cmp.Or(l.cfg.Advertise, l.cfg.Name) }
