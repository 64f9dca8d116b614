package control

import (
	"context"
	"errors"
	"fmt"
	"time"

	"rideshare/internal/coord"
	"rideshare/internal/logkey"
)

const (
	// offered begins the name of a leader that offers the lead.
	offered = "offered by "
	// offerAfter is how long persdb must have left the leader without an answer before the leader offers the lead.
	offerAfter = 3 * time.Second
	// leastTerm is how long an orchestrator leads before it offers the lead. So the lead does not change more often.
	leastTerm = 10 * time.Second
)

// errOffered is why a standby takes the lead over from a leader that offers it.
var errOffered = errors.New("it does not reach persdb and offers the lead")

// askStore returns nil if persdb answers this orchestrator.
func (l *Loop) askStore(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, l.cfg.step())
	defer cancel()
	if _, err := l.cfg.Store.Head(ctx); err != nil {
		return fmt.Errorf("persdb does not answer: %w", err)
	}
	return nil
}

// reachStore is askStore for the leader, which remembers since when persdb has not answered: at least since began.
func (l *Loop) reachStore(ctx context.Context, began time.Time) error {
	err := l.askStore(ctx)
	l.storeLost = since(l.storeLost, err != nil, began)
	return err
}

// offerLead offers the lead if persdb has not answered this leader for a while. The leader goes on until a standby that
// reaches persdb takes the lead over. If there is none, nothing changes.
//
// The offer is the name of another term of this leader. Lead is called after Leader: if the term that Leader
// returned is not of this orchestrator, it is over by then, and TakeOver does nothing.
func (l *Loop) offerLead(ctx context.Context, session coord.Session) {
	now := l.cfg.Now()
	if session == nil || l.storeLost.IsZero() || now.Sub(l.storeLost) < offerAfter || now.Sub(l.leadsFrom) < leastTerm {
		return
	}
	callCtx, cancel := context.WithTimeout(ctx, l.cfg.step())
	defer cancel()
	name := offered + l.leadsAs()
	leader, err := session.Leader(callCtx)
	if err != nil || leader.Name == name {
		return
	}
	leads, err := session.Lead(callCtx, l.leadsAs())
	if leads && err == nil {
		leads, err = session.TakeOver(callCtx, leader, name)
	}
	if leads && err == nil {
		l.cfg.Log.WarnContext(ctx, "lead offered to other orchestrators", logkey.Reason, "persdb does not answer", logkey.Took, now.Sub(l.storeLost))
	}
}
