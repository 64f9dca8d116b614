package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"time"

	"rideshare/examples/internal/db"
	"rideshare/examples/internal/web"
)

// soldOutFlags holds which goods have no free unit, as the change feed reports. While the feed is not connected there is no
// flag, and orders go to the database. A flag may be late: then the database refuses the order, or an order is refused
// although a unit has just become free.
type soldOutFlags struct {
	mu    sync.Mutex     // guards goods
	goods map[int64]bool // whether they are sold out; nil while the feed is not connected
}

// has reports whether the goods are known to have no free unit.
func (f *soldOutFlags) has(goods int64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.goods[goods]
}

// follow keeps the flags current until ctx ends.
func (f *soldOutFlags) follow(ctx context.Context, c *db.Client, log *slog.Logger) {
	for wait := time.Duration(0); web.Pause(ctx, wait); wait = time.Second {
		if err := f.connect(ctx, c); ctx.Err() == nil {
			log.Warn("the change feed is lost, orders of sold-out goods go to the database", "error", err)
		}
	}
}

// connect reads the goods at one position, and follows their changes from that position until the feed ends.
func (f *soldOutFlags) connect(ctx context.Context, c *db.Client) error {
	answer, err := c.Query(ctx, db.Options{}, db.SQL("SELECT goods_id FROM sale_goods WHERE free = 0"))
	if err = cmp.Or(err, answer.Err()); err != nil {
		return err
	}
	goods := map[int64]bool{}
	for _, row := range answer.Results[0].Values {
		goods[db.Int(row[0])] = true
	}
	defer f.lose()
	return c.Changes(ctx, answer.Position(), "sale_goods", func(e db.Event) error { return f.apply(e, goods) })
}

// lose forgets the flags, since the feed is lost.
func (f *soldOutFlags) lose() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.goods = nil
}

// apply applies one event of the feed to goods. At the first event, which says that the feed is connected, goods becomes
// the flags.
func (f *soldOutFlags) apply(e db.Event, goods map[int64]bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.goods = goods
	for _, change := range e.Changes {
		id, known := change.Key["goods_id"].(json.Number)
		free, counted := change.After["free"].(json.Number)
		switch {
		case change.Op == "schema":
			return errors.New("the tables were changed") // connect reads the goods again.
		case change.Op == "delete" && known:
			delete(goods, db.Int(id))
		case known && counted: // An update has only the columns that it changed.
			goods[db.Int(id)] = db.Int(free) == 0
		}
	}
	return nil
}
