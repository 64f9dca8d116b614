package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/valyala/fasthttp"
)

// The works.
const (
	workPoint = "point-read"
	workRange = "20-row-read"
	workWrite = "write"
)

// groupRows is how many rows the range read answers.
const groupRows = 20

// work is one kind of request.
type work struct {
	name string
	path string
	// request returns the next body and how many rows its answer must have, -1 for {}.
	request func(r *rand.Rand, n int64) (body []byte, rows int)
}

func works(rows int) []work {
	return []work{
		{name: workPoint, path: "/api/v1/db/read", request: func(r *rand.Rand, _ int64) ([]byte, int) {
			return fmt.Appendf(nil, `{"table":"bench","columns":["k","v"],"condition":{"k":"%s"}}`, key(r.IntN(rows))), 1
		}},
		{name: workRange, path: "/api/v1/db/read", request: func(r *rand.Rand, _ int64) ([]byte, int) {
			return fmt.Appendf(nil, `{"table":"bench","columns":["k","v"],"condition":{"g":%d}}`, r.IntN(rows/groupRows)), groupRows
		}},
		{name: workWrite, path: "/api/v1/db/write", request: func(r *rand.Rand, n int64) ([]byte, int) {
			return fmt.Appendf(nil, `{"query":"insert","table":"bench","values":{"k":"w%d-%d","g":-1,"v":"%016x"}}`, r.Uint64(), n, r.Uint64()), -1
		}},
	}
}

func key(i int) string { return fmt.Sprintf("k%08d", i) }

// figure is one measurement.
type figure struct {
	rate, p50, p99 float64 // a second, milliseconds, milliseconds
	errors         int64
}

// drive lets clients send requests one after the other for the duration.
func drive(ctx context.Context, t target, w work, cfg Config) (figure, error) {
	client := &fasthttp.HostClient{
		Addr: strings.TrimPrefix(t.url, "http://"), MaxConns: cfg.Clients, ReadTimeout: 20 * time.Second, WriteTimeout: 20 * time.Second,
	}
	defer client.CloseIdleConnections()
	runtime.GC() // what the run before left behind is not this one's
	ctx, cancel := context.WithTimeout(ctx, cfg.Duration)
	defer cancel()
	var group sync.WaitGroup
	var sent atomic.Int64
	hists := make([]*hdrhistogram.Histogram, cfg.Clients)
	errs := make([]error, cfg.Clients)
	start := time.Now()
	for i := range cfg.Clients {
		hists[i] = hdrhistogram.New(1, int64(time.Minute/time.Microsecond), 3)
		c := driver{http: client, target: t, work: w, sent: &sent, hist: hists[i]}
		group.Go(func() { errs[i] = c.run(ctx) })
	}
	group.Wait()
	took := time.Since(start)
	if err := errors.Join(errs...); err != nil {
		return figure{}, err
	}
	all := hdrhistogram.New(1, int64(time.Minute/time.Microsecond), 3)
	for _, h := range hists {
		all.Merge(h)
	}
	return figure{
		rate: float64(all.TotalCount()) / took.Seconds(),
		p50:  float64(all.ValueAtQuantile(50)) / 1000, p99: float64(all.ValueAtQuantile(99)) / 1000,
	}, nil
}

// driver is one client.
type driver struct {
	http   *fasthttp.HostClient
	target target
	work   work
	sent   *atomic.Int64 // by all clients
	hist   *hdrhistogram.Histogram
}

// run sends one request after the other until ctx ends. Every answer is checked.
func (d *driver) run(ctx context.Context) error {
	random := rand.New(rand.NewPCG(rand.Uint64(), 1)) //nolint:gosec // load, not secrets.
	req, resp := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	defer fasthttp.ReleaseRequest(req)
	defer fasthttp.ReleaseResponse(resp)
	req.SetRequestURI(d.target.url + d.work.path)
	req.Header.SetMethod(fasthttp.MethodPost)
	for ctx.Err() == nil {
		body, rows := d.work.request(random, d.sent.Add(1))
		req.SetBody(body)
		start := time.Now()
		if err := d.http.Do(req, resp); err != nil {
			return fmt.Errorf("request: %w", err)
		}
		if err := d.hist.RecordValue(max(1, time.Since(start).Microseconds())); err != nil {
			return fmt.Errorf("record latency: %w", err)
		}
		if d.target.path == pathHTTP {
			rows = -1
		}
		if err := check(resp, rows); err != nil {
			return fmt.Errorf("%s: %w", body, err)
		}
	}
	return nil
}

func check(resp *fasthttp.Response, rows int) error {
	body := resp.Body()
	if resp.StatusCode() != fasthttp.StatusOK {
		return fmt.Errorf("status %d: %.200s", resp.StatusCode(), body)
	}
	if rows >= 0 && bytes.Count(body, []byte(`"k":`)) != rows {
		return fmt.Errorf("answer has not %d rows: %.200s", rows, body)
	}
	return nil
}
