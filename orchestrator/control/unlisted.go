package control

import (
	"context"
	"errors"
	"slices"

	"rideshare/internal/coord"
	"rideshare/internal/dbaas"
)

// passUnlisted is a pass in which no launcher answers. It carries out no plan. It counts which workers serve, since reads
// and writes go on, and reads the wanted number of slaves. If the coordinator does not answer either, it renews the master.
func (l *Loop) passUnlisted(ctx context.Context, session coord.Session) {
	members, up := l.registrations(ctx, session)
	if !up {
		l.renewUnlisted(ctx)
		return
	}
	l.countRegistered(session, members)
	asking, cancel := context.WithTimeout(ctx, l.cfg.step())
	defer cancel()
	switch n, _, err := session.SlaveCount(asking); {
	case err == nil:
		l.knowDesired(ctx, n)
	case !errors.Is(err, coord.ErrNone): // the next pass would renew too late
		l.renewUnlisted(ctx)
	}
}

// countRegistered is count without a new list: the registered workers count, unless the last list showed that they had ended.
func (l *Loop) countRegistered(session coord.Session, members map[dbaas.WorkerID]coord.Member) {
	now := l.cfg.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.view.members = members
	last := listing{instances: slices.Clone(l.view.list.instances)}
	for id, m := range members {
		last.add(id, m)
	}
	o := Observed{Now: now, CoordinatorSince: l.sessionSince}
	l.count(last.instances, o.returning(l.sessionTimeout(session)), now)
}

// renewUnlisted renews the master that the last list showed.
func (l *Loop) renewUnlisted(ctx context.Context) {
	if !l.isLeading() {
		return
	}
	var last Observed
	l.mu.Lock()
	for _, in := range l.view.list.instances {
		if m := l.memory[in.ID]; m != nil {
			last.Workers = append(last.Workers, m.worker(in))
		}
	}
	l.mu.Unlock()
	l.renew(ctx, last)
}
