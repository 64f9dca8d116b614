package httpapi

import (
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"

	"rideshare/internal/dbaas"
)

const (
	// transferPiece is after how many bytes of a long body or answer its progress is noted.
	transferPiece = 64 << 10
	// slowRate is the least rate, in bytes a second, at which a body or a long answer may come or go while others
	// wait for its room: 4 Mbit/s.
	slowRate = 512 << 10
	// slowGrace is how long a long transfer is not looked at, shortGrace a short one: less than others wait for room.
	slowGrace, shortGrace = 2 * time.Second, roomWait / 4
)

// transfers are the bodies that come and the long answers that go. A client that is slow holds its room for
// minutes: while no one waits for it that is fine, else it loses its place. It is safe for concurrent use.
type transfers struct {
	grace time.Duration

	mu     sync.Mutex // guards the fields below
	all    map[*transfer]struct{}
	looked time.Time // when evict last looked at all
}

// transfer is one of them.
type transfer struct {
	since   time.Time
	done    atomic.Int64 // bytes
	evicted atomic.Bool
	stop    func() // wakes who waits for the client
}

// begin registers a transfer; end forgets it.
func (ts *transfers) begin(t *transfer) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if ts.all == nil {
		ts.all = map[*transfer]struct{}{}
	}
	ts.all[t] = struct{}{}
}

func (ts *transfers) end(t *transfer) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	delete(ts.all, t)
}

// evict ends the transfers that are slow. However many wait, it looks at them only so often.
func (ts *transfers) evict() {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if time.Since(ts.looked) < evictEvery/4 {
		return
	}
	ts.looked = time.Now()
	for t := range ts.all {
		took := time.Since(t.since)
		if took > ts.grace && float64(t.done.Load()) < took.Seconds()*slowRate && t.evicted.CompareAndSwap(false, true) {
			t.stop()
		}
	}
}

var errTooSlow = dbaas.Errorf(dbaas.CodeUnavailable, "the transfer was too slow while others waited for its room: try again, or send less at once")

// poolOf returns the pool that n bytes of a request were taken of, nil for none.
func poolOf(r *http.Request, n int64) *pool {
	if state := requestOf(r.Context()); state != nil && state.held.budget != nil {
		return state.held.budget.of(n)
	}
	return nil
}

// past is a deadline that wakes at once who reads or writes.
func past() time.Time { return time.Unix(1, 0) }

// pieces calls move for the next bytes, up to n in all, as long as the client is fast enough for those who wait for room of the
// pool. io.EOF of move ends it well.
func pieces(p *pool, n int64, stop func(), move func(n int64) error) error {
	t := &transfer{since: time.Now(), stop: stop}
	if p != nil {
		p.transfers.begin(t)
	}
	var err error
	for n > 0 && err == nil && !t.evicted.Load() {
		next := min(n, transferPiece)
		err = move(next)
		t.done.Add(next)
		n -= next
	}
	if p != nil {
		p.transfers.end(t) // it is evicted by now, or never
	}
	switch {
	case t.evicted.Load():
		return errTooSlow
	case err == io.EOF: //nolint:errorlint // as io.Reader returns it
		return nil
	}
	return err
}

// readPieces reads up to n bytes of the body by move, for which held bytes were taken.
func readPieces(c echo.Context, held, n int64, move func(n int64) error) error {
	return pieces(poolOf(c.Request(), held), n, func() {
		_ = http.NewResponseController(c.Response().Writer).SetReadDeadline(past()) // one that cannot is not on a connection.
	}, move)
}

// WriteLong writes an answer, or a part of it, of any length. A long one that its client takes too slowly is cut off when others wait
// for its room.
func WriteLong(c echo.Context, data []byte) error {
	var p *pool
	if n := int64(len(data)); n > smallHold {
		p = poolOf(c.Request(), n)
	}
	return pieces(p, int64(len(data)), func() {
		_ = http.NewResponseController(c.Response().Writer).SetWriteDeadline(past()) // one that cannot is not on a connection.
	}, func(n int64) error {
		_, err := c.Response().Write(data[:n])
		data = data[n:]
		return err
	})
}
