package ladder

import (
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/valyala/fasthttp"
)

// pipes is a listener without a network, for bubbles of testing/synctest.
type pipes struct{ accepted chan net.Conn }

func (p *pipes) dial(string) (net.Conn, error) {
	client, server := net.Pipe()
	p.accepted <- server
	return client, nil
}

func (p *pipes) Accept() (net.Conn, error) {
	c, ok := <-p.accepted
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}

func (p *pipes) Close() error   { close(p.accepted); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

// measureSlow measures, in a bubble, one client on a server that takes so long for each answer.
func measureSlow(t *testing.T, offered float64, length, answer time.Duration) (got figure) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := &pipes{accepted: make(chan net.Conn)}
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			time.Sleep(answer)
			_, _ = io.WriteString(w, "[]")
		})}
		ended := make(chan error, 1)
		go func() { ended <- server.Serve(p) }()
		r := run{target: &target{dial: p.dial, addresses: addresses{Database: "http://database", Gateway: "http://gateway"}}, work: workNothing, rows: 1, clients: 1, length: length, offered: offered}
		var err error
		if got, err = r.measure(t.Context()); err != nil || got.errors > 0 {
			t.Errorf("got %v and %d wrong answers: %v", err, got.errors, got.wrong)
		}
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
		time.Sleep(2 * fasthttp.DefaultMaxIdleConnDuration) // the bubble's time: the client's cleaner sees that nothing is left
	})
	return got
}

// near says that a time in milliseconds is what the histogram's three digits make of want.
func near(got, want float64) bool { return got >= want && got <= want*1.001+0.002 }

// In the open loop the latency of a request counts from when it was due: requests that come while
// the server is busy wait, and their wait is the server's fault.
func TestMeasure_OpenLoop_LatencyCountsFromTheDueTime(t *testing.T) {
	// Due at 0, 50, ... 450 ms, answered at 100, 200, ... 600 ms by which time the run is over: the waits grow by 50 ms.
	got := measureSlow(t, 20, 520*time.Millisecond, 100*time.Millisecond)
	if got.answers != 6 || !near(got.p50, 200) || !near(got.slowest, 350) {
		t.Errorf("got %d answers, p50 %v, slowest %v ms, want 6, 200, 350", got.answers, got.p50, got.slowest)
	}
	if got.unsent != 5 { // due at 300, 350, ... 500 ms
		t.Errorf("got %d unsent, want 5", got.unsent)
	}
	// A server that is fast enough: requests are due at 0, 50, ... 500 ms, and none waits.
	got = measureSlow(t, 20, 520*time.Millisecond, 10*time.Millisecond)
	if got.answers != 11 || !near(got.p50, 10) || !near(got.slowest, 10) || got.unsent != 0 {
		t.Errorf("got %d answers, p50 %v, slowest %v ms, %d unsent, want 11, 10, 10, none", got.answers, got.p50, got.slowest, got.unsent)
	}
}

// In the closed loop a client sends when it has its answer; the rate is the number of answers over the time taken.
func TestMeasure_ClosedLoop_LatencyCountsFromTheSending(t *testing.T) {
	got := measureSlow(t, 0, 950*time.Millisecond, 100*time.Millisecond)
	if got.answers != 10 || !near(got.rate, 10) || !near(got.p50, 100) || !near(got.slowest, 100) {
		t.Errorf("got %d answers, %v/s, p50 %v, slowest %v ms, want 10, 10/s, 100, 100", got.answers, got.rate, got.p50, got.slowest)
	}
}
