package load

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"rideshare/bench/api"
	"rideshare/bench/ledger"
	"rideshare/bench/loadgen"
	"rideshare/bench/scene"
)

// run is one run of a scene.
type run struct {
	*scene.Run

	services            string // base URLs of the instances, with commas between them
	number, connections int    // orders of the scenes storm and kill; orders in flight, except in burst and same-user
	flag                bool   // the instances use the sold-out flag
	instances           scene.Instances
	goods               []*goods
	seq                 uint64                // of the last goods; a read at this position has seen the orders before them
	orders              ledger.Writes[string] // by id
	buyers              atomic.Int64          // of the scene leases, in which instances die

	mu      sync.Mutex // guards what follows
	unknown []answer
	lost    map[string]bool   // buyers without an answer, in the scene leases
	ended   map[string]string // the state of an order after its buyer got an answer
}

// goods is a kind of goods that the scene sells.
type goods struct {
	ID    int64
	stock int
	least int // units that must be held at the end, unless units were leased; no more than stock count
}

// insist sends a request to an instance until it is answered 200, 201 or 404. Without such an answer the scene fails.
func (r *run) insist(ctx context.Context, method, path string, body any, head ...string) api.Reply {
	reply, err := api.Insist(ctx, func(ctx context.Context) api.Reply {
		return r.API.Send(ctx, method, r.instances.Next()+path, body, head...)
	}, http.StatusOK, http.StatusCreated, http.StatusNotFound)
	if err != nil {
		r.Fail(ctx, fmt.Errorf("%s %s: %w", method, path, err))
	}
	return reply
}

// sell puts goods on sale.
func (r *run) sell(ctx context.Context, stock, holdSeconds int) *goods {
	reply := r.insist(ctx, http.MethodPost, "/goods", map[string]any{"name": "of a load scene", "stock": stock, "price_cents": 100, "hold_seconds": holdSeconds})
	r.seq = max(r.seq, scene.Seq(reply))
	g := &goods{stock: stock}
	_ = json.Unmarshal(reply.Body, g) // Without an answer the scene has ended.
	if g.ID > 0 {
		r.goods = append(r.goods, g)
	}
	return g
}

// answer is the service's answer to a buyer's order.
type answer struct {
	Order, State, Reason, By string
	ExpiresAt                time.Time `json:"expires_at"`
	status                   int
	text, buyer              string
}

// outcome is how the figures count the answer. 409 is expected, since there are more buyers than units.
func (a answer) outcome() loadgen.Outcome {
	o := loadgen.Outcome{Kind: cmp.Or(a.Reason, a.State, fmt.Sprint(a.status))}
	if a.By != "" {
		o.Kind += " by the " + a.By
	}
	if a.status != http.StatusCreated && a.status != http.StatusAccepted && a.status != http.StatusConflict {
		o.Failure = o.Kind
	}
	return o
}

// order sends an order, retries it while it is refused temporarily, and records its fate.
func (r *run) order(ctx context.Context, g *goods, buyer string, head ...string) answer {
	reply, _ := r.Attempts(ctx, scene.Request{
		URL: fmt.Sprintf("%s/goods/%d/orders", r.instances.Next(), g.ID), Header: append(head, "X-User", buyer),
		Done: []int{http.StatusCreated, http.StatusAccepted, http.StatusConflict},
	})
	a := answer{buyer: buyer, status: reply.Status, text: reply.String()}
	_ = json.Unmarshal(reply.Body, &a) // Without a whole answer the status is 0.
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case a.status == http.StatusCreated:
		r.orders.Note(a.Order, ledger.Applied)
	case a.status == http.StatusAccepted || a.status == http.StatusGatewayTimeout:
		r.unknown = append(r.unknown, a)
	case a.Reason == "sold-out":
		g.least = g.stock
	case a.status == 0 && r.buyers.Load() > 0: // Its instance was killed or stopped.
		r.lost[buyer] = true
	case a.status != http.StatusConflict && a.status != http.StatusServiceUnavailable && a.status != http.StatusTooManyRequests:
		r.Wrong("order of %s: %s", buyer, a.text)
	}
	return a
}
