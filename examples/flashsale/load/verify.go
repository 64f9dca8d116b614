package load

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"rideshare/bench/api"
	"rideshare/bench/ledger"
	"rideshare/bench/scene"
	"rideshare/examples/internal/db"
)

// verify compares every answer with the rows of the database. It waits for a database that is not complete yet.
func (r *run) verify(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	if err := r.settle(ctx); err != nil {
		return err
	}
	return errors.Join(r.compare(ctx), r.audits(ctx))
}

// settle waits until no order is in flight, and asks for the state of each order whose outcome is unknown.
func (r *run) settle(ctx context.Context) error {
	// Writes are done in order: once this write is done, no earlier write can be done any more.
	if _, err := r.sell(ctx, 0, 0); err != nil {
		return err
	}
	for _, a := range r.unknown {
		reply, err := r.insist(ctx, http.MethodGet, "/orders/"+a.Order, nil, "X-User", a.buyer)
		if err != nil {
			return err
		}
		_ = json.Unmarshal(reply.Body, &a) // 404 has no state.
		r.orders.Note(a.Order, map[bool]ledger.Fate{true: ledger.Applied, false: ledger.Refused}[slices.Contains([]string{"HELD", "PAID", "EXPIRED"}, a.State)])
	}
	r.Note("%d orders were pending or had an unknown outcome; each was resolved by its id", len(r.unknown))
	return nil
}

// compare reads the orders of all goods.
func (r *run) compare(ctx context.Context) error {
	const page = 10_000
	found := map[string]int{}
	for _, g := range r.goods {
		for after, more := "", true; more; {
			answer, err := r.database.Query(ctx, db.Options{Level: "strong"},
				db.SQL("SELECT order_id, state, user_id FROM sale_orders WHERE goods_id = ? AND order_id > ? AND state <> 'REFUSED' ORDER BY order_id LIMIT ?", g.id, after, page))
			if err != nil || answer.Results[0].Error != "" {
				return fmt.Errorf("read the orders: %v %w", answer, err)
			}
			for _, row := range answer.Results[0].Values {
				after = fmt.Sprint(row[0])
				if !r.lost[fmt.Sprint(row[2])] {
					found[after]++
				}
				if want := r.ended[after]; want != "" && row[1] != want {
					r.Wrong("order %s was answered %s and is %v", after, want, row[1])
				}
			}
			more = len(answer.Results[0].Values) == page
		}
	}
	r.Change(func(result *scene.Result) {
		r.orders.Compare(&result.Check, "order", found)
		for order := range found {
			result.Check.Unasked.Add("order %s is there, and no buyer was told", order)
		}
	})
	return nil
}

// audits asks the service whether the counts of all goods are those of the orders.
func (r *run) audits(ctx context.Context) error {
	for _, g := range r.goods {
		a, err := r.audit(ctx, g)
		if err != nil {
			return err
		}
		if !a.OK || a.Total != g.stock {
			r.Wrong("goods %d: the audit is %+v, want it ok with a total of %d", g.id, a, g.stock)
		}
	}
	return nil
}

// audit is the part of the service's audit that the scenes look at.
type audit struct {
	Total, Held, Leased int
	OK                  bool
}

func (r *run) audit(ctx context.Context, g goods) (audit, error) {
	reply, err := r.insist(ctx, http.MethodGet, fmt.Sprintf("/goods/%d/audit", g.id), nil)
	if err != nil {
		return audit{}, err
	}
	return api.Decode[audit](reply)
}
