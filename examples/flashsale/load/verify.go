package load

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	"rideshare/bench/ledger"
	"rideshare/bench/scene"
	"rideshare/internal/wait"
)

// verify compares every answer with the rows of the database. It waits for a database that is not complete yet.
func (r *run) verify(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	r.sell(ctx, 0, 0) // An answer that has seen this write has seen the earlier ones.
	r.resolve(ctx)
	found, leases := map[string]int{}, slices.ContainsFunc(r.unknown, func(a answer) bool { return a.status == http.StatusAccepted })
	for _, g := range r.goods {
		least := min(g.stock, g.least)
		if a := r.audit(ctx, g); !a.OK || a.Total != g.stock || (a.Held < least && a.Leased == 0 && !leases) {
			r.Wrong("goods %d: the audit is %+v, want it ok with a total of %d, and at least %d held", g.ID, a, g.stock, least)
		}
		r.read(ctx, g, found)
	}
	scene.Compare(r.Run, "order", &r.orders, found)
}

// audit is the part of the service's audit that the scenes look at.
type audit struct {
	Total, Held, Leased int
	OK                  bool
}

// audit asks the service for the audit of goods.
func (r *run) audit(ctx context.Context, g *goods) (a audit) {
	reply := r.insist(ctx, http.MethodGet, fmt.Sprintf("/goods/%d/audit", g.ID), nil)
	_ = json.Unmarshal(reply.Body, &a) // Without an answer the audit is not OK.
	return a
}

// untilHeld waits until the wanted number of units of some goods is held, at most two minutes.
func (r *run) untilHeld(ctx context.Context, g *goods, want int) {
	waiting, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	a := r.audit(ctx, g)
	for a.Held != want && wait.For(waiting, 100*time.Millisecond) {
		a = r.audit(ctx, g)
	}
	if a.Held != want && ctx.Err() == nil {
		r.Wrong("goods %d: %d units are held, want %d", g.ID, a.Held, want)
	}
}

// resolve asks for the state of each order with an unknown outcome, and waits while it is pending: its write may be tried again.
func (r *run) resolve(ctx context.Context) {
	waiting, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for _, a := range r.unknown {
		state := r.state(ctx, a)
		for state == "PENDING" && wait.For(waiting, 100*time.Millisecond) {
			state = r.state(ctx, a)
		}
		fate := ledger.Refused
		switch {
		case state == "HELD" || state == "PAID" || state == "EXPIRED":
			fate = ledger.Applied
		case a.status == http.StatusAccepted && state != "REFUSED" && ctx.Err() == nil:
			r.Wrong("order %s was answered 202 and has no row", a.Order)
		}
		r.orders.Note(a.Order, fate)
	}
	r.Note("%d orders were pending or had an unknown outcome; each was resolved by its id", len(r.unknown))
}

// state asks for the state of an order after the last write. It is "" for an order that the service does not know.
func (r *run) state(ctx context.Context, a answer) string {
	reply := r.insist(ctx, http.MethodGet, "/orders/"+a.Order, nil, "X-User", a.buyer, "X-Min-Seq", fmt.Sprint(r.seq))
	var now answer
	_ = json.Unmarshal(reply.Body, &now) // 404 has no state.
	return now.State
}

// read counts the rows of each order of some goods, and compares their states with the answers. An order of a buyer without
// an answer may be there or not.
func (r *run) read(ctx context.Context, g *goods, found map[string]int) {
	for _, row := range scene.Rows[[3]string](ctx, r.Run, "SELECT order_id, state, user_id FROM sale_orders WHERE goods_id = ? AND state <> 'REFUSED'", g.ID) {
		order, state, buyer := row[0], row[1], row[2]
		if !r.lost[buyer] {
			found[order]++
		}
		if want := r.ended[order]; want != "" && state != want {
			r.Wrong("order %s was answered %s and is %s", order, want, state)
		}
	}
}
