package ladder

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/valyala/fasthttp"
)

const (
	// answerLimit is longer than any answer may take: an answer that takes longer is an error.
	answerLimit = 20 * time.Second
	// maxLatency is the longest latency that histograms distinguish.
	maxLatency = time.Minute
)

// figure is one measurement.
type figure struct {
	rate, p50, p99 float64 // a second, milliseconds, milliseconds
	slowest        float64 // milliseconds
	answers        int64
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

// beside measures while the work's side load runs.
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

// measure lets the clients send for the length of the run.
func (r run) measure(ctx context.Context) (figure, error) {
	clients := make([]*client, r.clients)
	database, gateway := r.target.host(r.target.addresses.Database, r.clients), r.target.host(r.target.addresses.Gateway, r.clients)
	defer database.CloseIdleConnections()
	defer gateway.CloseIdleConnections()
	runtime.GC() // so that garbage of the previous run does not count for this one
	before := r.target.usage()
	ctx, cancel := context.WithTimeout(ctx, r.length)
	defer cancel()
	start := time.Now()
	pace := &pacer{start: start, rate: r.offered}
	var group sync.WaitGroup
	for i := range clients {
		work, err := newWork(r.work, r.rows, i)
		if err != nil {
			return figure{}, err
		}
		c := &client{database: database, gateway: gateway, work: work, pace: pace, hist: hdrhistogram.New(1, maxLatency.Microseconds(), 3)}
		clients[i] = c
		group.Go(func() { c.run(ctx) })
	}
	group.Wait()
	took := time.Since(start)
	f := figure{cpu: r.target.usage().since(before)}
	all := hdrhistogram.New(1, maxLatency.Microseconds(), 3)
	for _, c := range clients {
		all.Merge(c.hist)
		f.errors += c.errors
		if f.wrong == nil {
			f.wrong = c.wrong
		}
	}
	f.answers = all.TotalCount()
	f.rate = float64(f.answers) / took.Seconds()
	f.p50, f.p99 = float64(all.ValueAtQuantile(50))/1000, float64(all.ValueAtQuantile(99))/1000
	f.slowest = float64(all.Max()) / 1000
	return f, nil
}

func (t *target) host(url string, clients int) *fasthttp.HostClient {
	return &fasthttp.HostClient{
		Addr: strings.TrimPrefix(url, "http://"), Dial: t.dial, MaxConns: clients, ReadTimeout: answerLimit, WriteTimeout: answerLimit,
	}
}

// pacer determines when requests are due.
type pacer struct {
	start time.Time
	rate  float64 // zero: due immediately
	taken atomic.Int64
}

// next waits until the next request is due and returns that time. It returns false if ctx ends first.
func (p *pacer) next(ctx context.Context) (due time.Time, ok bool) {
	if p.rate == 0 {
		return time.Now(), ctx.Err() == nil
	}
	n := p.taken.Add(1) - 1
	due = p.start.Add(time.Duration(float64(n) / p.rate * float64(time.Second)))
	if wait := time.Until(due); wait > 0 {
		if deadline, bounded := ctx.Deadline(); bounded && due.After(deadline) {
			return due, false
		}
		time.Sleep(wait) // it is short: the next one is due within the clients' turn
	}
	return due, ctx.Err() == nil
}

// client is one keep-alive client with one request in flight.
type client struct {
	database, gateway *fasthttp.HostClient
	work              *work
	pace              *pacer
	hist              *hdrhistogram.Histogram
	errors            int64
	wrong             error // the first
}

// run sends requests one after the other until ctx ends. It checks every answer.
func (c *client) run(ctx context.Context) {
	req, resp := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	defer fasthttp.ReleaseRequest(req)
	defer fasthttp.ReleaseResponse(resp)
	var r request
	for n := 0; ; n++ {
		due, ok := c.pace.next(ctx)
		if !ok {
			return
		}
		c.work.next(c.work, &r)
		if err := c.one(&r, req, resp); err != nil {
			c.fail(err)
			continue
		}
		if err := c.hist.RecordValue(max(1, time.Since(due).Microseconds())); err != nil {
			c.fail(fmt.Errorf("record latency: %w", err))
		}
		if err := r.check(resp.StatusCode(), resp.Body(), n%sampleEvery == 0); err != nil {
			c.fail(err)
		}
	}
}

func (c *client) one(r *request, req *fasthttp.Request, resp *fasthttp.Response) error {
	host := c.database
	if r.gateway {
		host = c.gateway
	}
	req.Reset()
	req.SetRequestURI(r.path)
	req.Header.SetHost(host.Addr)
	req.Header.SetMethod(r.method)
	req.SetBody(r.body)
	if err := host.Do(req, resp); err != nil {
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
