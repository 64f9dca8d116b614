package main

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/google/uuid"

	"rideshare/examples/internal/db"
	"rideshare/examples/internal/web"
)

// leaseLife is how long a lease lives after it was taken or renewed, by the database's clock.
const leaseLife = 10 * time.Second

// leases are the units that this instance has moved from free to leased, so that it can accept orders without waiting for the
// database. They are only hints: the database refuses an order under a lease without an unused unit.
type leases struct {
	instances uint             // share the free units
	wanted    chan int64       // goods whose lease to take or renew
	mu        sync.Mutex       // guards open
	open      map[int64]*lease // by goods
}

// lease is a lease by this instance's clock. If left is 0, there were too few free units, and no lease is tried before ends.
type lease struct {
	id          string
	left        int64 // units without an order
	renew, ends time.Time
}

// unit takes a unit of this instance's lease of goods, and returns the lease, or "" if there is none. An order that finds no
// lease, or a lease past half of its life, makes keepLeases take or renew one. So a lease without orders ends: other
// instances may need its units.
func (l *leases) unit(goods int64) string {
	if l == nil {
		return ""
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	at, mine := time.Now(), l.open[goods]
	if mine == nil || !at.Before(mine.renew) {
		select {
		case l.wanted <- goods:
		default: // keepLeases is busy; a later order asks again.
		}
	}
	if mine == nil || mine.left == 0 || !at.Before(mine.ends) {
		return ""
	}
	if mine.left--; mine.left == 0 {
		delete(l.open, goods) // The sweep gives back the units whose orders were refused.
	}
	return mine.id
}

// keepLeases takes and renews leases until ctx ends.
func (s *service) keepLeases(ctx context.Context, log *slog.Logger) {
	for {
		select {
		case <-ctx.Done():
			return
		case goods := <-s.leases.wanted:
			if err := s.lease(ctx, goods); err != nil && ctx.Err() == nil {
				log.Warn("no lease, orders wait for the database", "goods", goods, "error", err)
			}
		}
	}
}

// lease renews the lease of goods, or takes one if there is none. If the database has closed the lease, or has too few free
// units, or its answer is unknown, there is no lease for a second. The sweep gives back what a forgotten lease has.
func (s *service) lease(ctx context.Context, goods int64) error {
	l, at := s.leases, time.Now()
	l.mu.Lock()
	maps.DeleteFunc(l.open, func(_ int64, one *lease) bool { return !at.Before(one.ends) })
	mine, isNew, statement := l.open[goods], false, renewLease
	if mine == nil {
		mine, isNew, statement = &lease{id: uuid.Must(uuid.NewV7()).String()}, true, insertLease
	}
	l.mu.Unlock()
	done, err := s.write(ctx, db.Options{Key: "lease-" + uuid.NewString(), Rows: true}, db.SQL(statement, mine.id, goods, l.instances, leaseLife.Milliseconds()))
	l.mu.Lock()
	defer l.mu.Unlock()
	if isNew {
		l.open[goods] = mine
	}
	if err != nil || len(done.Results[0].Values) == 0 {
		mine.left, mine.renew, mine.ends = 0, time.Now().Add(time.Second), time.Now().Add(time.Second)
		return err
	}
	if isNew {
		mine.left = db.Int(done.Results[0].Values[0][0])
	}
	mine.renew, mine.ends = at.Add(leaseLife/2), at.Add(leaseLife)
	return nil
}

// sweepLimit is how many holds one statement ends at most.
const sweepLimit = 1000

// sweep ends expired holds, and closes expired leases, until ctx ends. Every instance sweeps: an order leaves HELD only once,
// and a closed lease has nothing to give back.
func (s *service) sweep(ctx context.Context, log *slog.Logger) {
	for wait := time.Second; web.Pause(ctx, wait); {
		wait = time.Second
		answer, err := s.db.Execute(ctx, db.Options{Key: "sweep-" + uuid.NewString()}, db.SQL(expireOrders, sweepLimit), db.SQL(closeLeases))
		if err = cmp.Or(err, answer.Err()); err != nil && ctx.Err() == nil {
			log.Warn("sweep", "error", err)
		} else if err == nil && answer.Results[0].RowsAffected == sweepLimit {
			wait = 0 // There are more.
		}
	}
}
