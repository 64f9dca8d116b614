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
	"rideshare/examples/internal/db"
	"rideshare/internal/wait"
)

// attempts is how often a buyer sends an order that is refused temporarily.
const attempts = 5

// run is one run of a scene.
type run struct {
	*scene.Run

	cfg      config
	database *db.Client
	next     atomic.Int64 // chooses the instance
	buyers   atomic.Int64 // of the scene leases
	services atomic.Pointer[[]string]
	orders   ledger.Writes[string]
	goods    []goods

	mu      sync.Mutex // guards what follows
	unknown []answer
	lost    map[string]bool   // buyers without an answer, in the scene leases
	ended   map[string]string // the state of an order after its buyer got an answer
}

// goods is a kind of goods that the scene sells.
type goods struct {
	id    int64
	stock int
}

// scaled returns n times the scale, at least least.
func (r *run) scaled(n, least int) int { return max(least, r.Scaled(n)) }

// service returns the instances in turn.
func (r *run) service() string {
	services := *r.services.Load()
	return services[int(r.next.Add(1))%len(services)]
}

func (r *run) use(services ...string) { r.services.Store(&services) }

// insist retries a request until it is answered 200, 201 or 404.
func (r *run) insist(ctx context.Context, method, path string, body any, head ...string) (api.Reply, error) {
	return api.Insist(ctx, func(ctx context.Context) api.Reply {
		return r.API.Send(ctx, method, r.service()+path, body, head...)
	}, http.StatusOK, http.StatusCreated, http.StatusNotFound)
}

// sell puts goods on sale.
func (r *run) sell(ctx context.Context, stock, holdSeconds int) (goods, error) {
	body := map[string]any{"name": "of a load scene", "stock": stock, "price_cents": 100, "hold_seconds": holdSeconds}
	reply, err := r.insist(ctx, http.MethodPost, "/goods", body)
	if err != nil {
		return goods{}, fmt.Errorf("put goods on sale: %w", err)
	}
	made, err := api.Decode[struct{ ID int64 }](reply)
	r.goods = append(r.goods, goods{made.ID, stock})
	return goods{made.ID, stock}, err
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
func (r *run) order(ctx context.Context, g goods, buyer string, head ...string) answer {
	var a answer
	forNow := true
	for try := 1; forNow; try++ {
		reply := r.API.Send(ctx, http.MethodPost, fmt.Sprintf("%s/goods/%d/orders", r.service(), g.id), nil, append(head, "X-User", buyer)...)
		a = answer{buyer: buyer, status: reply.Status, text: reply.String()}
		_ = json.Unmarshal(reply.Body, &a) // Without a whole answer the status is 0.
		forNow = a.status == http.StatusServiceUnavailable || a.status == http.StatusTooManyRequests
		if forNow && (try == attempts || !wait.For(ctx, reply.Pause())) {
			break
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case a.status == http.StatusCreated:
		r.orders.Note(a.Order, ledger.Applied)
	case a.status == http.StatusAccepted || a.status == http.StatusGatewayTimeout:
		r.unknown = append(r.unknown, a)
	case a.status == 0 && r.buyers.Load() > 0: // Its instance was killed or stopped.
		r.lost[buyer] = true
	case a.outcome().Failure != "" && !forNow:
		r.Wrong("order of %s: %s", buyer, a.text)
	}
	return a
}
