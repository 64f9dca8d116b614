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
	// transferPiece is after how many bytes of a long body or answer its progress is recorded.
	transferPiece = 64 << 10
	// slowRate is the minimum rate, in bytes per second, of a body or a long answer while other requests wait for its
	// room: 4 Mbit/s.
	slowRate = 512 << 10
	// slowGrace is how long a long transfer runs before its rate is checked. shortGrace is the same for a short
	// transfer, and is less than other requests wait for room.
	slowGrace, shortGrace = 2 * time.Second, roomWait / 4
)

// transfers are the bodies being received and the long answers being sent. A slow client holds its room for minutes:
// that is fine while no request waits for the room, otherwise the transfer is evicted. It is safe for concurrent use.
type transfers struct {
	grace time.Duration

	mu     sync.Mutex // guards the fields below
	all    map[*transfer]struct{}
	looked time.Time // when evict last checked the transfers
}

// transfer is one body or answer in transfer. It may have several parts: the time between them does not count, since
// nothing waits for the client then.
type transfer struct {
	pool    *pool         // its room is taken from this pool; nil if no request waits for that room
	stop    func()        // unblocks the read or write that waits for the client
	took    time.Duration // of the parts before
	since   time.Time     // the start of this part
	done    atomic.Int64  // bytes
	evicted atomic.Bool

	progress AnswerProgress // of an answer
}

// begin registers a transfer; end removes it.
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

// evict ends the slow transfers. It limits how often it checks, however many requests wait.
func (ts *transfers) evict() {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if time.Since(ts.looked) < evictEvery/4 {
		return
	}
	ts.looked = time.Now()
	for t := range ts.all {
		took := t.took + time.Since(t.since)
		if took > ts.grace && float64(t.done.Load()) < took.Seconds()*slowRate && t.evicted.CompareAndSwap(false, true) {
			t.stop()
		}
	}
}

var errTooSlow = dbaas.Errorf(dbaas.CodeUnavailable, "the transfer was too slow while others waited for its room: try again, or send less at once")

// poolOf returns the pool from which n bytes of a request were taken, or nil.
func poolOf(r *http.Request, n int64) *pool {
	if state := requestOf(r.Context()); state != nil && state.held.budget != nil {
		return state.held.budget.of(n)
	}
	return nil
}

// heldPool returns the pool of which the request holds room for a long answer, or nil if it holds none.
func heldPool(r *http.Request) *pool {
	state := requestOf(r.Context())
	if state == nil || state.held.budget == nil {
		return nil
	}
	state.held.mu.Lock()
	defer state.held.mu.Unlock()
	if state.held.large == 0 {
		return nil
	}
	return &state.held.budget.large
}

// past is a deadline in the past, which unblocks a reader or writer immediately.
func past() time.Time { return time.Unix(1, 0) }

// part calls move for the next bytes, up to n in total, as long as the client is fast enough for the requests that wait
// for room in the pool. It returns nil if move returns io.EOF.
func (t *transfer) part(n int64, move func(n int64) error) error {
	t.since = time.Now()
	if t.pool != nil {
		t.pool.transfers.begin(t)
	}
	var err error
	for n > 0 && err == nil && !t.evicted.Load() {
		next := min(n, transferPiece)
		err = move(next)
		t.done.Add(next)
		n -= next
	}
	if t.pool != nil {
		t.pool.transfers.end(t) // after this the transfer can no longer be evicted
	}
	t.took += time.Since(t.since)
	switch {
	case t.evicted.Load():
		return errTooSlow
	case err == io.EOF: //nolint:errorlint // as io.Reader returns it
		return nil
	}
	return err
}

// readPieces reads up to n bytes of the body with move. held bytes were taken for the body.
func readPieces(w http.ResponseWriter, r *http.Request, held, n int64, move func(n int64) error) error {
	t := &transfer{pool: poolOf(r, held), stop: func() {
		_ = http.NewResponseController(w).SetReadDeadline(past()) // an error means that there is no connection.
	}}
	return t.part(n, move)
}

// WriteLong writes an answer, or a part of it, of any length. If the client takes a long one too slowly while other
// requests wait for its room, the answer is cut off.
func WriteLong(c echo.Context, data []byte) error {
	t := newAnswering(c)
	if n := int64(len(data)); n > smallHold {
		t.pool = poolOf(c.Request(), n)
	}
	return t.write(c, data)
}

// newAnswering returns the transfer of an answer, which is not evicted as long as its pool is nil.
func newAnswering(c echo.Context) *transfer {
	w := c.Response().Writer
	return &transfer{progress: NewAnswerProgress(w, c.Request()), stop: func() {
		_ = http.NewResponseController(w).SetWriteDeadline(past()) // an error means that there is no connection.
	}}
}

// write writes data as the next part of the answer.
func (t *transfer) write(c echo.Context, data []byte) error {
	return t.part(int64(len(data)), func(n int64) error {
		if t.progress.Next(n) && t.evicted.Load() {
			t.stop() // The renewal may have replaced the deadline of evict.
		}
		_, err := c.Response().Write(data[:n])
		data = data[n:]
		return err
	})
}
