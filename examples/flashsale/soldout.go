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
)

// flags holds which goods have no free unit, as the change feed reports. While the feed is not connected there is no flag,
// and orders go to the database. A flag may be late: then the database refuses the order, or an order is refused although
// a unit has just become free.
type flags struct {
	mu   sync.Mutex     // guards none
	none map[int64]bool // goods without a free unit
}

// soldOut reports whether the goods are known to have no free unit.
func (f *flags) soldOut(goods int64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.none[goods]
}

// follow keeps the flags current until ctx ends.
func (f *flags) follow(ctx context.Context, c *db.Client, log *slog.Logger) {
	for wait := time.Duration(0); pause(ctx, wait); wait = time.Second {
		if err := f.connect(ctx, c); ctx.Err() == nil {
			log.Warn("the change feed is lost, orders of sold-out goods go to the database", "error", err)
		}
	}
}

// connect reads the goods at one position, and follows their changes from that position until the feed ends.
func (f *flags) connect(ctx context.Context, c *db.Client) error {
	answer, err := c.Query(ctx, db.Options{}, db.SQL("SELECT goods_id FROM sale_goods WHERE free = 0"))
	if err = cmp.Or(err, failed(answer)); err != nil {
		return err
	}
	none := map[int64]bool{}
	for _, row := range answer.Results[0].Values {
		none[integer(row[0])] = true
	}
	defer f.lose()
	return c.Changes(ctx, answer.Position(), []string{"sale_goods"}, func(e db.Event) error { return f.event(none, e) })
}

func (f *flags) lose() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.none = nil
}

// event applies one event of the feed to none, which counts from the first event, when the feed is connected.
func (f *flags) event(none map[int64]bool, e db.Event) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.none = none
	for _, change := range e.Changes {
		goods, known := change.Key["goods_id"].(json.Number)
		free, counted := change.After["free"].(json.Number)
		switch {
		case change.Op == "schema" || change.Op == "truncate":
			return errors.New("the tables were changed") // connect reads the goods again.
		case change.Op == "delete" && known:
			delete(none, integer(goods))
		case known && counted: // An update has only the columns that it changed.
			none[integer(goods)] = integer(free) == 0
		}
	}
	return nil
}
