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
	"rideshare/internal/wait"
)

// run is one run of a scene.
type run struct {
	*scene.Run

	settings  settings
	instances scene.Instances
	goods     []*goods
	seq       uint64                // of the last goods; a read at this position has seen the orders before them
	orders    ledger.Writes[string] // by id
	buyers    atomic.Int64          // of the scene leases, in which instances die

	mu      sync.Mutex // guards what follows
	unknown []answer
	lost    map[string]bool   // buyers without an answer, in the scene leases
	ended   map[string]string // the state of an order after its buyer got an answer
}

// goods is a kind of goods that the scene sells.
type goods struct {
	id    int64
	stock int
	least int // units that must be held at the end, unless units were leased; no more than stock count
}

// scaled returns n times the scale, at least least.
func (r *run) scaled(n, least int) int { return max(least, r.Scaled(n)) }

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
	body := map[string]any{"name": "of a load scene", "stock": stock, "price_cents": 100, "hold_seconds": holdSeconds}
	reply := r.insist(ctx, http.MethodPost, "/goods", body)
	r.seq = max(r.seq, scene.Seq(reply))
	var made struct{ ID int64 }
	_ = json.Unmarshal(reply.Body, &made) // Without an answer the scene has ended.
	g := &goods{id: made.ID, stock: stock}
	if g.id > 0 {
		r.goods = append(r.goods, g)
	}
	return g
}

// audit is the part of the service's audit that the scenes look at.
type audit struct {
	Total, Held, Leased int
	OK                  bool
}

// audit asks the service for the audit of goods.
func (r *run) audit(ctx context.Context, g *goods) (a audit) {
	reply := r.insist(ctx, http.MethodGet, fmt.Sprintf("/goods/%d/audit", g.id), nil)
	_ = json.Unmarshal(reply.Body, &a) // Without an answer the audit is not OK.
	return a
}

// until waits until the audit of goods is as done wants it, at most two minutes, and returns the last audit. It reports false if
// that time or ctx ends first.
func (r *run) until(ctx context.Context, g *goods, done func(audit) bool) (a audit, ok bool) {
	waiting, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for a = r.audit(ctx, g); !done(a); a = r.audit(ctx, g) {
		if !wait.For(waiting, 100*time.Millisecond) {
			return a, false
		}
	}
	return a, true
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
		URL: fmt.Sprintf("%s/goods/%d/orders", r.instances.Next(), g.id), Header: append(head, "X-User", buyer),
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
