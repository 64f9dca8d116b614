package ladder

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"rideshare/bench/loadgen"
)

// answerLimit is longer than any answer may take: an answer that takes longer is an error.
const answerLimit = 20 * time.Second

// figure is one measurement.
type figure struct {
	rate, p50, p99 float64 // a second, milliseconds, milliseconds
	slowest        float64 // milliseconds
	answers        int64
	unsent         int64 // requests of the open loop that were due and not sent: they are in no percentile
	written        int64 // writes that were answered 200
	errors         int64
	wrong          error // the first error
	cpu            usage // of each part, during the measurement
	lag            *Lag  // nil where there are no replicas that report it
}

// run is one measurement to be made.
type run struct {
	target  *target
	work    string
	rows    int
	clients int
	length  time.Duration
	// offered is how many requests per second are due, whether or not answers arrive; latency counts from the due time.
	// Zero: each client sends its next request when it has its answer.
	offered float64
}

// beside measures the run while the side load of its work, if it has one, runs too.
func (r run) beside(ctx context.Context) (figure, error) {
	if r.work != workBesideSlow {
		return r.measure(ctx)
	}
	end, err := r.target.besideSlow(ctx)
	if err != nil {
		return figure{}, err
	}
	f, err := r.measure(ctx)
	return f, errors.Join(err, end())
}

// measure lets the clients send for the length of the run. A run that ctx ends early has no figure.
func (r run) measure(ctx context.Context) (figure, error) {
	clients, err := r.newClients()
	if err != nil {
		return figure{}, err
	}
	plan := loadgen.Config{
		Loop: loadgen.Closed, Plan: loadgen.Plan{{Duration: r.length, From: float64(r.clients), To: float64(r.clients)}}, MaxInFlight: r.clients,
		Call: func(_ context.Context, q loadgen.Request) loadgen.Outcome {
			clients[q.Slot].call(q.Due)
			return loadgen.Outcome{}
		},
	}
	if r.offered > 0 {
		plan.Loop, plan.Plan[0].From, plan.Plan[0].To = loadgen.Open, r.offered, r.offered
	}
	runtime.GC() // so that garbage of the previous run does not count for this one
	before := r.target.usage()
	start := time.Now()
	summary, err := loadgen.Run(ctx, plan)
	if err = errors.Join(err, ctx.Err()); err != nil {
		return figure{}, err
	}
	took := time.Since(start)
	f := figure{unsent: summary.Unsent, cpu: r.target.usage().since(before)}
	all := loadgen.NewTally()
	for _, c := range clients {
		all.Merge(c.tally)
		f.written += c.written
		f.errors += c.errors
		if f.wrong == nil {
			f.wrong = c.wrong
		}
	}
	clients[0].database.CloseIdleConnections()
	clients[0].gateway.CloseIdleConnections()
	total := all.Figures()
	f.answers, f.rate = total.Count, float64(total.Count)/took.Seconds()
	f.p50, f.p99, f.slowest = milliseconds(total.P50), milliseconds(total.P99), milliseconds(total.Max)
	return f, nil
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// newClients returns the clients of the run, which share their connections.
func (r run) newClients() ([]*client, error) {
	database, gateway := r.target.host(r.target.addresses.Database, r.clients), r.target.host(r.target.addresses.Gateway, r.clients)
	clients := make([]*client, r.clients)
	for i := range clients {
		work, err := newWork(r.work, r.rows, i)
		if err != nil {
			return nil, err
		}
		if r.target.sql {
			work.next = sqlWorks()[r.work]
		}
		clients[i] = &client{database: database, gateway: gateway, work: work, tally: loadgen.NewTally()}
	}
	return clients, nil
}

func (t *target) host(url string, clients int) *fasthttp.HostClient {
	return &fasthttp.HostClient{
		Addr: strings.TrimPrefix(url, "http://"), Dial: t.dial, MaxConns: clients, ReadTimeout: answerLimit, WriteTimeout: answerLimit,
	}
}

// client is one keep-alive client with one request in flight.
type client struct {
	database, gateway *fasthttp.HostClient
	work              *work
	tally             *loadgen.Tally
	sent              int
	written           int64
	errors            int64
	wrong             error // the first

	// request, req and resp are reused for each request.
	request request
	req     fasthttp.Request
	resp    fasthttp.Response
}

// call sends the next request, whose latency counts from due, and checks the answer.
func (c *client) call(due time.Time) {
	c.work.next(c.work, &c.request)
	exact := c.sent%sampleEvery == 0
	c.sent++
	if err := c.send(&c.request); err != nil {
		c.fail(err)
		return
	}
	c.tally.Add(time.Since(due), "")
	if err := c.request.check(c.resp.StatusCode(), c.resp.Body(), exact); err != nil {
		c.fail(err)
	} else if c.request.path == writePath || c.request.path == executePath {
		c.written++
	}
}

func (c *client) send(r *request) error {
	host := c.database
	if r.gateway {
		host = c.gateway
	}
	c.req.Reset()
	c.req.SetRequestURI(r.path)
	c.req.Header.SetHost(host.Addr)
	c.req.Header.SetMethod(r.method)
	c.req.SetBody(r.body)
	if err := host.Do(&c.req, &c.resp); err != nil {
		return fmt.Errorf("%s %s: %w", r.method, r.path, err)
	}
	return nil
}

func (c *client) fail(err error) {
	c.errors++
	if c.wrong == nil {
		c.wrong = err
	}
}
