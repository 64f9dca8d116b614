package load

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"rideshare/bench/loadgen"
	"rideshare/bench/scene"
	"rideshare/internal/wait"
)

// A hold that no scene outlives, in seconds, and the kinds of the answer sold-out.
const longHold, byFlag, byDatabase = 24 * 60 * 60, "sold-out by the flag", "sold-out by the database"

// burst lets all buyers of some goods order at the same moment, for few and many units and buyers.
func burst(ctx context.Context, r *run) {
	for _, units := range []int{1, 100, 1000} {
		for _, buyers := range []int{100, 1000, 10_000} {
			s, c := r.Scaled(units), max(10, r.Scaled(buyers))
			g := r.sell(ctx, s, longHold)
			buy := func(ctx context.Context, n int) loadgen.Outcome {
				return r.order(ctx, g, fmt.Sprint("buyer-", n)).outcome()
			}
			got := r.Stage(ctx, loadgen.Stage{Name: fmt.Sprintf("%d units, %d buyers", s, c), Clients: c, Requests: c}, buy, nil)
			won, leased := int(got["HELD"]), int(got["PENDING"]) // What is leased may be sold later.
			decided := won + leased + int(got[byDatabase]+got[byFlag])
			if won > min(s, c) || got["duplicate"] > 0 || (ctx.Err() == nil && (decided < c || (leased == 0 && won < min(s, c)))) {
				r.Wrong("%d units, %d buyers: got %v, want %d orders and all others sold-out", s, c, got, min(s, c))
			}
		}
	}
}

// sameUser lets each buyer send ten orders concurrently, half of the buyers with one key for all ten.
func sameUser(ctx context.Context, r *run) {
	const times = 10
	buyers := max(10, r.Scaled(1000))
	g := r.sell(ctx, buyers*times, longHold)
	answers := make([][times]answer, buyers)
	r.Stage(ctx, loadgen.Stage{Name: "same user", Clients: buyers * times, Requests: buyers * times}, func(ctx context.Context, n int) loadgen.Outcome {
		buyer := n / times
		head := [][]string{{"Idempotency-Key", "all-ten"}, nil}[buyer%2]
		answers[buyer][n%times] = r.order(ctx, g, fmt.Sprint("buyer-", buyer), head...)
		return answers[buyer][n%times].outcome()
	}, nil)
	for buyer, list := range answers {
		decided, won := slices.DeleteFunc(list[:], func(a answer) bool { return a.outcome().Failure != "" }), 0
		for _, a := range decided {
			if a.status == http.StatusCreated {
				won++
			}
			if a.Order != decided[0].Order || (buyer%2 == 0 && a.text != decided[0].text) {
				r.Wrong("buyer %d: got %s and %s, want one order", buyer, a.text, decided[0].text)
			}
		}
		if want := []int{len(decided), 1}[buyer%2]; won > want || (won < want && len(decided) == times) {
			r.Wrong("buyer %d: got %d times 201, want %d", buyer, won, want)
		}
	}
}

// expire holds units and pays some of them around the end of their holds, while every instance sweeps.
func expire(ctx context.Context, r *run) {
	units := max(10, r.Scaled(1000))
	g := r.sell(ctx, units, 3)
	orders := make([]answer, units)
	r.Stage(ctx, loadgen.Stage{Name: "hold", Clients: min(units, r.connections), Requests: units}, func(ctx context.Context, n int) loadgen.Outcome {
		orders[n] = r.order(ctx, g, fmt.Sprint("buyer-", n))
		return orders[n].outcome()
	}, nil)
	pay := func(ctx context.Context, n int) loadgen.Outcome { return r.pay(ctx, orders[n]) }
	r.Stage(ctx, loadgen.Stage{Name: "pay", Clients: units * 6 / 10, Requests: units * 6 / 10}, pay, nil)
	r.untilHeld(ctx, g, 0)
}

// pay pays an order around the end of its hold.
func (r *run) pay(ctx context.Context, o answer) loadgen.Outcome {
	offset := time.Duration(rand.Int64N(int64(time.Second))) - time.Second/2 //nolint:gosec // A moment is no secret.
	if o.status != http.StatusCreated || !wait.For(ctx, time.Until(o.ExpiresAt.Add(offset))) {
		return loadgen.Outcome{Kind: "not held"}
	}
	reply := r.API.Send(ctx, http.MethodPost, r.instances.Next()+"/orders/"+o.Order+"/pay", nil, "X-User", o.buyer)
	state := map[int]string{http.StatusOK: "PAID", http.StatusGone: "EXPIRED"}[reply.Status]
	if state == "" {
		return loadgen.Outcome{Kind: "pay", Failure: reply.Failure(http.StatusOK)}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended[o.Order] = state
	return loadgen.Outcome{Kind: state}
}

// leases sells goods at seven instances that lease units. While they have leases, one instance is killed and one is stopped;
// the others must sell the units of the two.
func leases(ctx context.Context, r *run) {
	processes, urls := r.StartAll(ctx, 7, `"flashsale is ready" url=`,
		"--database", r.Database, "--auth-file", r.AuthFile, "--listen", "127.0.0.1:0", "--leases", "7")
	if ctx.Err() != nil {
		return
	}
	r.instances.Use(urls...)
	r.sell(ctx, max(84, r.Scaled(100)), longHold)
	many := r.sell(ctx, max(280, r.Scaled(1001)), longHold)
	buy := func(ctx context.Context, _ loadgen.Request) loadgen.Outcome {
		n := r.buyers.Add(1)
		o := r.order(ctx, r.goods[n%2], fmt.Sprint("buyer-", n)).outcome()
		o.Pause = 20 * time.Millisecond
		return o
	}
	for i, before := 0, 0; i < 2 && wait.For(ctx, 20*time.Millisecond); { // until the instances that are killed and stopped below have leases
		r.instances.Use(urls[i])
		buy(ctx, loadgen.Request{})
		a := r.audit(ctx, many)
		if a.Leased > before {
			i++
		}
		before = a.Leased
	}
	if ctx.Err() != nil {
		return
	}
	r.instances.Use(urls...)
	selling, sold := context.WithCancel(ctx)
	var group sync.WaitGroup
	group.Go(func() { r.crash(ctx, processes, urls[2:], sold) })
	r.Load(selling, "leases", loadgen.Config{Plan: loadgen.Plan{{Name: "leases", Duration: time.Hour, From: 16, To: 16}}, Loop: loadgen.Closed, Call: buy}, nil)
	group.Wait()
	r.instances.Use(urls[1]) // It resumes with leases that the database has closed.
	buy(ctx, loadgen.Request{})
	buy(ctx, loadgen.Request{})
}

// crash kills the first process and stops the second during the load, and calls sold when the others have sold all units.
func (r *run) crash(ctx context.Context, processes []*os.Process, others []string, sold func()) {
	defer sold()
	const goal, stop = 12 * time.Second, 20 * time.Second // The goal is the life of a lease, and 2 s.
	for begin := r.buyers.Load(); r.buyers.Load() < begin+50 && wait.For(ctx, time.Millisecond); {
	}
	r.instances.Use(others...)
	at := time.Now()
	err := errors.Join(processes[0].Kill(), processes[1].Signal(syscall.SIGSTOP))
	for _, g := range r.goods {
		r.untilHeld(ctx, g, g.stock)
	}
	took := time.Since(at)
	r.Note("all units were sold %v after an instance was killed", took)
	if r.Scale >= 1 && took > goal {
		r.Wrong("all units were sold %v after an instance was killed, want %v", took, goal)
	}
	sold()
	wait.For(ctx, time.Until(at.Add(time.Duration(min(1, r.Scale)*float64(stop)))))
	if err = errors.Join(err, processes[1].Signal(syscall.SIGCONT)); err != nil {
		r.Wrong("kill and stop instances: %v", err)
	}
}

// storm sends many orders for few goods, which are not equally popular.
func storm(ctx context.Context, r *run) { r.storm(ctx, "storm", max(10, r.Scaled(10_000)), nil) }

// kill is a storm in which half of the orders find a unit, and parts of the database are killed.
func kill(ctx context.Context, r *run) { r.storm(ctx, "kill", r.number/2, scene.Kills(r.number)) }

// storm sells units of ten goods. kills names the parts to kill by the number of the answered order.
func (r *run) storm(ctx context.Context, name string, units int, kills map[int64]string) {
	const kinds = 10
	for range kinds {
		r.sell(ctx, units/kinds, longHold)
	}
	wanted := make([]uint64, r.number)
	popular := rand.NewZipf(rand.New(rand.NewPCG(1, 1)), 1.1, 1, kinds-1) //nolint:gosec // Chance is no secret.
	for i := range wanted {
		wanted[i] = popular.Uint64()
	}
	connections := min(r.connections, len(wanted))
	buy := func(ctx context.Context, n int) loadgen.Outcome {
		return r.order(ctx, r.goods[wanted[n]], fmt.Sprint("buyer-", n)).outcome()
	}
	got := r.Stage(ctx, loadgen.Stage{Name: name, Clients: connections, Requests: len(wanted)}, buy, kills)
	if kills == nil && ctx.Err() == nil { // Otherwise orders may be refused or not sent.
		for _, kind := range wanted {
			r.goods[kind].least++
		}
	}
	// Orders that are in flight when the last unit is sold cannot be refused by the flag.
	if most := max((got[byDatabase]+got[byFlag])/100, int64(kinds*connections)); r.flag && r.Scale >= 1 && got[byDatabase] > most { // a short scene may be over before the flag
		r.Wrong("got %v, want at most %d sold-out answers that asked the database", got, most)
	}
}
