package httpapi_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/labstack/echo/v4"

	"rideshare/internal/dbaas"
	"rideshare/internal/httpapi"
)

const mib = 1 << 20

// gauge counts the body bytes read by handlers that have not returned yet, and their maximum so far.
type gauge struct{ now, most atomic.Int64 }

func (g *gauge) add(n int64) {
	for now, most := g.now.Add(n), g.most.Load(); now > most && !g.most.CompareAndSwap(most, now); most = g.most.Load() {
	}
}

// countedBody counts the bytes read from it.
type countedBody struct {
	io.ReadCloser
	gauge *gauge
	read  int64
}

func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.read += int64(n)
	b.gauge.add(int64(n))
	return n, err
}

// drop counts the bytes no longer.
func (b *countedBody) drop() { b.gauge.add(-b.read) }

// busy is an API whose requests read their body and then take as long as work does.
type busy struct {
	api   *httpapi.API
	gauge gauge
}

func newBusy(budget int64, work func(c echo.Context, body []byte) error) *busy {
	b := &busy{api: httpapi.New(httpapi.Config{Log: slog.New(slog.DiscardHandler), MaxBody: budget, Budget: httpapi.NewBudget(budget)})}
	b.api.Handle(http.MethodPost, "/", func(c echo.Context) error {
		counted := &countedBody{ReadCloser: c.Request().Body, gauge: &b.gauge}
		defer counted.drop() // before the budget gets the room back
		c.Request().Body = counted
		body, err := httpapi.ReadBody(c.Response(), c.Request())
		if err != nil {
			return err
		}
		return work(c, body)
	})
	return b
}

// post sends a body of n bytes, without its length if it is chunked.
func (b *busy) post(t *testing.T, n int64, chunked bool) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", io.LimitReader(zeros{}, n))
	if r.ContentLength = n; chunked {
		r.ContentLength = -1
	}
	w := httptest.NewRecorder()
	b.api.ServeHTTP(w, r)
	return w
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// There are more large bodies than there is room for: the bytes held never exceed the limit. Requests that find no
// room within a second are refused, with the reason and a time to retry. When the others are answered, all room is
// back.
func TestBudget_ManyLargeBodies_HeldWithinTheBound(t *testing.T) {
	for _, chunked := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			b := newBusy(10*mib, func(c echo.Context, _ []byte) error {
				time.Sleep(700 * time.Millisecond)
				return httpapi.Empty(c, http.StatusOK)
			})
			for range 2 {
				var wg sync.WaitGroup
				var served, refused atomic.Int64
				for range 8 {
					wg.Go(func() {
						switch w := b.post(t, 3*mib, chunked); {
						case w.Code == http.StatusOK:
							served.Add(1)
						case w.Code == http.StatusServiceUnavailable && w.Header().Get("Retry-After") != "" && strings.Contains(w.Body.String(), "too many large requests"):
							refused.Add(1)
						default:
							t.Errorf("got %d %s", w.Code, w.Body)
						}
					})
				}
				wg.Wait()
				if want := map[bool]int64{false: 6, true: 2}[chunked]; served.Load() != want {
					t.Errorf("chunked %v: served %d and refused %d, want %d served in two turns", chunked, served.Load(), refused.Load(), want)
				}
			}
			if most := b.gauge.most.Load(); most > 10*mib+16*64<<10 {
				t.Errorf("chunked %v: %d bytes were held at once, want at most the bound", chunked, most)
			}
		})
	}
}

// Small requests do not wait behind large ones, even while large ones wait for room.
func TestBudget_SmallBodies_PassLargeOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBusy(4*mib, func(c echo.Context, body []byte) error {
			if len(body) > 64<<10 {
				time.Sleep(time.Minute)
			}
			return httpapi.Empty(c, http.StatusOK)
		})
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() { b.post(t, 3*mib, false) })
		}
		synctest.Wait()
		start := time.Now()
		for range 100 {
			for _, chunked := range []bool{false, true} {
				if w := b.post(t, 60<<10, chunked); w.Code != http.StatusOK {
					t.Errorf("a small body beside large ones: got %d %s", w.Code, w.Body)
				}
			}
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("small bodies waited %v", took)
		}
		wg.Wait()
	})
}

// A short body of unknown length holds its own bytes once it has arrived, not the room that was taken to receive it.
func TestBudget_ShortChunkedBodies_HoldWhatTheyAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBusy(4*mib, func(c echo.Context, _ []byte) error {
			time.Sleep(time.Minute)
			return httpapi.Empty(c, http.StatusOK)
		})
		var wg sync.WaitGroup
		for _, chunked := range []bool{true, false} {
			for range 100 {
				wg.Go(func() {
					if w := b.post(t, 80, chunked); w.Code != http.StatusOK {
						t.Errorf("a short body beside others, chunked %v: got %d %s", chunked, w.Code, w.Body)
					}
				})
			}
			synctest.Wait()
		}
		wg.Wait()
		for range 4 { // together they need the whole reserve
			wg.Go(func() {
				if w := b.post(t, 64<<10, false); w.Code != http.StatusOK {
					t.Errorf("afterwards: got %d %s", w.Code, w.Body)
				}
			})
		}
		wg.Wait()
	})
}

// Memory that a request holds besides its body counts too. A request that alone needs more than the budget can never
// succeed: 413.
func TestHold_CountsUntilTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		need := int64(3 * mib)
		b := newBusy(4*mib, func(c echo.Context, _ []byte) error {
			if err := httpapi.Hold(c.Request().Context(), need); err != nil {
				return err
			}
			time.Sleep(500 * time.Millisecond)
			return httpapi.Empty(c, http.StatusOK)
		})
		var wg sync.WaitGroup
		for range 2 { // one after the other
			wg.Go(func() {
				if w := b.post(t, 1000, false); w.Code != http.StatusOK {
					t.Errorf("got %d %s, want 200", w.Code, w.Body)
				}
			})
		}
		wg.Wait()
		if w := b.post(t, 2*mib, false); w.Code != http.StatusRequestEntityTooLarge {
			t.Errorf("body and more than is left: got %d %s, want 413", w.Code, w.Body)
		}
		if w := b.post(t, mib, false); w.Code != http.StatusOK {
			t.Errorf("afterwards: got %d %s, want 200", w.Code, w.Body)
		}
	})
}

// Memory that cannot be refused is charged: other requests wait until it is returned.
func TestCharge_GoesOverTheBoundAndOthersWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := true
		b := newBusy(4*mib, func(c echo.Context, _ []byte) error {
			if first {
				first = false
				httpapi.Charge(c.Request().Context(), 6*mib)
				time.Sleep(5 * time.Second)
			}
			return httpapi.Empty(c, http.StatusOK)
		})
		var wg sync.WaitGroup
		wg.Go(func() { b.post(t, 10, false) })
		synctest.Wait()
		if w := b.post(t, 100<<10, false); w.Code != http.StatusServiceUnavailable {
			t.Errorf("while more than the bound is held: got %d, want 503", w.Code)
		}
		wg.Wait()
		if w := b.post(t, 4*mib, false); w.Code != http.StatusOK {
			t.Errorf("afterwards: got %d %s, want 200", w.Code, w.Body)
		}
	})
}

// A handler that panics returns what it held.
func TestBudget_Panic_GivesBack(t *testing.T) {
	b := newBusy(4*mib, func(_ echo.Context, body []byte) error {
		if len(body) > 3*mib {
			panic("a bug")
		}
		return dbaas.ErrUnavailable
	})
	for range 3 {
		if w := b.post(t, 4*mib, false); w.Code != http.StatusInternalServerError {
			t.Fatalf("got %d, want 500", w.Code)
		}
	}
}
