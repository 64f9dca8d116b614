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
	// slowRate is the least rate, in bytes a second, at which a long body or answer may come or go while others
	// wait for its room: 4 Mbit/s.
	slowRate = 512 << 10
	// slowGrace is how long a transfer is not looked at.
	slowGrace = 2 * time.Second
)

// transfers are the long bodies that come and the long answers that go. A client that is slow holds its room for
// minutes: while no one waits for it that is fine, else it loses its place. It is safe for concurrent use.
type transfers struct {
	mu  sync.Mutex // guards all
	all map[*transfer]struct{}
}

// transfer is one of them.
type transfer struct {
	since   time.Time
	done    atomic.Int64 // bytes
	evicted atomic.Bool
	stop    func() // wakes who waits for the client
}

// begin registers a transfer of the request; end forgets it.
func (ts *transfers) begin(stop func()) (t *transfer, end func()) {
	t = &transfer{since: time.Now(), stop: stop}
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if ts.all == nil {
		ts.all = map[*transfer]struct{}{}
	}
	ts.all[t] = struct{}{}
	return t, func() {
		ts.mu.Lock()
		defer ts.mu.Unlock()
		delete(ts.all, t)
	}
}

// evict ends the transfers that are slow.
func (ts *transfers) evict() {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	for t := range ts.all {
		took := time.Since(t.since)
		if took > slowGrace && float64(t.done.Load()) < took.Seconds()*slowRate && t.evicted.CompareAndSwap(false, true) {
			t.stop()
		}
	}
}

var errTooSlow = dbaas.Errorf(dbaas.CodeUnavailable, "the transfer was too slow while others waited for its room: try again, or send less at once")

// budgetOf returns the budget that a request counts for, nil for none.
func budgetOf(r *http.Request) *Budget {
	if state := requestOf(r.Context()); state != nil {
		return state.held.budget
	}
	return nil
}

// past is a deadline that wakes at once who reads or writes.
func past() time.Time { return time.Unix(1, 0) }

// pieces calls move for the next bytes, up to n in all, as long as the client is fast enough. io.EOF of move ends it well.
func pieces(c echo.Context, n int64, stop func(), move func(n int64) error) error {
	t, end := &transfer{}, func() {}
	if b := budgetOf(c.Request()); b != nil && n > smallHold {
		t, end = b.transfers.begin(stop)
	}
	defer end()
	for n > 0 {
		next := min(n, transferPiece)
		err := move(next)
		switch {
		case t.evicted.Load():
			return errTooSlow
		case err == io.EOF: //nolint:errorlint // as io.Reader returns it
			return nil
		case err != nil:
			return err
		}
		t.done.Add(next)
		n -= next
	}
	return nil
}

// readPieces reads up to n bytes of the body by move.
func readPieces(c echo.Context, n int64, move func(n int64) error) error {
	return pieces(c, n, func() {
		_ = http.NewResponseController(c.Response().Writer).SetReadDeadline(past()) // one that cannot is not on a connection.
	}, move)
}

// WriteLong writes an answer, or a part of it, of any length. One that its client takes too slowly is cut off when others wait
// for its room.
func WriteLong(c echo.Context, data []byte) error {
	return pieces(c, int64(len(data)), func() {
		_ = http.NewResponseController(c.Response().Writer).SetWriteDeadline(past()) // one that cannot is not on a connection.
	}, func(n int64) error {
		_, err := c.Response().Write(data[:n])
		data = data[n:]
		return err
	})
}
