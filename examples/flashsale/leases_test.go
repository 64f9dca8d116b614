package main

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"rideshare/examples/internal/db"
	"rideshare/examples/internal/web"
	"rideshare/internal/testkit/testenv"
)

// state waits until an order is decided, and returns its state.
func state(t *testing.T, order, user string) any {
	t.Helper()
	var g got
	testenv.Eventually(t, time.Minute, func() error {
		if g = call(t, http.MethodGet, order, "", "X-User", user); g.status != 200 || g.body["state"] == pending {
			return fmt.Errorf("got %+v, want it decided", g)
		}
		return nil
	})
	return g.body["state"]
}

// An order under a lease is answered before it is decided, and its state then says whether it got a unit. An order with a key
// is answered by the database.
func TestLeases_PendingThenHeldOrRefused(t *testing.T) {
	base := start(t, "--leases", "1")
	goods := sell(t, base, `{"name":"skis","stock":100000,"price_cents":100}`)
	buyers := 0
	order := func(user string) (url string) {
		testenv.Eventually(t, time.Minute, func() error { // until the instance has a lease
			buyers++
			g := call(t, http.MethodPost, goods+"/orders", "", "X-User", user+strconv.Itoa(buyers))
			if g.status != 202 {
				return fmt.Errorf("got %+v, want 202", g)
			}
			if g.body["state"] != pending || g.head.Get("Location") != "/orders/"+fmt.Sprint(g.body["order"]) {
				t.Errorf("got %+v, want it pending, with its place", g)
			}
			url = base + g.head.Get("Location")
			return nil
		})
		return url
	}
	first := order("ann")
	user := "ann" + strconv.Itoa(buyers)
	if got := state(t, first, user); got != held {
		t.Errorf("got %v, want it held", got)
	}
	if g := call(t, http.MethodPost, first+"/pay", "", "X-User", user); g.status != 200 {
		t.Errorf("pay: got %+v", g)
	}
	if g := call(t, http.MethodPost, goods+"/orders", "", "X-User", "keyed", "Idempotency-Key", "k"); g.status != 201 {
		t.Errorf("with a key: got %+v, want 201", g)
	}
	for name, want := range map[string]int{uuid.Must(uuid.NewV7()).String(): 200, uuid.NewString(): 404, "x": 404} {
		if g := call(t, http.MethodGet, base+"/orders/"+name, "", "X-User", user); g.status != want {
			t.Errorf("order %s: got %+v, want %d", name, g, want)
		}
	}
	if g := call(t, http.MethodGet, goods+"/audit", ""); g.body["ok"] != true {
		t.Errorf("audit: got %+v", g)
	}
}

// seller is an instance without background work, the id of its goods, and its handler.
func seller(t *testing.T, stock int) (s *service, goods int64, url string) {
	t.Helper()
	s = &service{
		soldOut: &soldOutFlags{}, rates: &rates{},
		leases: &leases{instances: 2, wanted: make(chan int64, 1), open: map[int64]*lease{}},
	}
	var err error
	if s.db, err = (web.Settings{Database: database(t)}).Open(t.Context(), "flashsale", db.SQL(schema), slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(s.handler())
	t.Cleanup(server.Close)
	id := sell(t, server.URL, fmt.Sprintf(`{"name":"skis","stock":%d,"price_cents":100}`, stock))
	goods, err = strconv.ParseInt(id[strings.LastIndex(id, "/")+1:], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return s, goods, server.URL
}

// execute runs a statement that changes leases behind the instance's back.
func execute(t *testing.T, s *service, text string, args ...any) db.Result {
	t.Helper()
	answer, err := s.db.Execute(t.Context(), db.Options{Rows: true}, db.SQL(text, args...))
	if err != nil || answer.Err() != nil {
		t.Fatal(err, answer.Err())
	}
	return answer.Results[0]
}

// An instance that sends orders under a lease that was closed while the instance was paused gets no unit for them.
func TestLeases_ClosedLease_RefusesOrders(t *testing.T) {
	s, goods, base := seller(t, 10)
	start(t) // It sweeps.
	execute(t, s, insertLease, "closed-"+base, goods, 2, -1)
	s.leases.open[goods] = &lease{id: "closed-" + base, left: 5, renew: time.Now().Add(time.Hour), ends: time.Now().Add(time.Hour)}
	testenv.Eventually(t, time.Minute, func() error { // until the other instance has swept
		if g := call(t, http.MethodGet, fmt.Sprint(base, "/goods/", goods, "/audit"), ""); g.body["free"] != 10.0 || g.body["leased"] != 0.0 {
			return fmt.Errorf("got %+v, want the units free again", g)
		}
		return nil
	})
	g := call(t, http.MethodPost, fmt.Sprint(base, "/goods/", goods, "/orders"), "", "X-User", "ann")
	if g.status != 202 {
		t.Fatalf("got %+v, want 202", g)
	}
	order := base + g.head.Get("Location")
	if got := state(t, order, "ann"); got != "REFUSED" {
		t.Errorf("got %v, want it refused", got)
	}
	if g = call(t, http.MethodPost, order+"/pay", "", "X-User", "ann"); g.status != 409 {
		t.Errorf("pay: got %+v, want 409", g)
	}
	if g = call(t, http.MethodGet, fmt.Sprint(base, "/goods/", goods, "/audit"), ""); g.body["ok"] != true || g.body["free"] != 10.0 {
		t.Errorf("audit: got %+v, want it ok with all units free", g)
	}
}

// A lease has its share of the free units. It is renewed, but not after it has expired, and not taken from few units.
func TestLeases_TakeAndRenew(t *testing.T) {
	s, goods, _ := seller(t, 100)
	far := time.Now().Add(time.Hour)
	take := func() *lease {
		t.Helper()
		if err := s.lease(t.Context(), goods); err != nil {
			t.Fatal(err)
		}
		return s.leases.open[goods]
	}
	first := *take()
	if first.left != 100/8 || !first.renew.Before(first.ends) {
		t.Errorf("got %+v, want %d units", first, 100/8)
	}
	set := db.Int(execute(t, s, "UPDATE sale_leases SET expires_at = expires_at + 3600000 WHERE lease_id = ? RETURNING expires_at", first.id).Values[0][0])
	s.leases.open[goods].ends = far
	if renewed := take(); renewed.id != first.id || renewed.left != first.left || !renewed.ends.Before(far) {
		t.Errorf("got %+v, want %+v with another end", renewed, first)
	}
	if got := db.Int(execute(t, s, "UPDATE sale_leases SET expires_at = 0 WHERE lease_id = ? AND expires_at <> ? RETURNING qty", first.id, set).Values[0][0]); got != 100/8 {
		t.Errorf("the renewed lease has %d units, want %d", got, 100/8)
	}
	s.leases.open[goods].ends = far
	if expired := take(); expired.left != 0 || !expired.ends.Before(far) || s.leases.unit(goods) != "" {
		t.Errorf("got %+v, want none after it has expired", expired)
	}
	s, goods, _ = seller(t, 7)
	if few := take(); few.left != 0 || s.leases.unit(goods) != "" {
		t.Errorf("got %+v of 7 units for two instances, want none", few)
	}
}

// An order asks for a lease when there is none, and for its renewal after half of its life; a used lease is forgotten.
func TestLeases_UnitAsks(t *testing.T) {
	at := time.Now()
	hour, past := at.Add(time.Hour), at.Add(-time.Hour)
	for _, tt := range []struct {
		name   string
		has    *lease
		want   string
		asks   bool
		remain int64
	}{
		{"None", nil, "", true, -1},
		{"Fresh", &lease{"a", 2, hour, hour}, "a", false, 1},
		{"HalfTime", &lease{"a", 2, past, hour}, "a", true, 1},
		{"Expired", &lease{"a", 2, past, past}, "", true, 2},
		{"LastUnit", &lease{"a", 1, hour, hour}, "a", false, -1},
		{"TooFewUnits", &lease{"a", 0, hour, hour}, "", false, 0},
	} {
		l := &leases{wanted: make(chan int64, 1), open: map[int64]*lease{}}
		if tt.has != nil {
			l.open[1] = tt.has
		}
		got := l.unit(1)
		remain := int64(-1)
		if l.open[1] != nil {
			remain = l.open[1].left
		}
		if got != tt.want || (len(l.wanted) == 1) != tt.asks || remain != tt.remain {
			t.Errorf("%s: got %q, asked %v, %d units remain; want %q, %v, %d", tt.name, got, len(l.wanted) == 1, remain, tt.want, tt.asks, tt.remain)
		}
	}
	if got := (*leases)(nil).unit(1); got != "" {
		t.Errorf("without leases: got %q", got)
	}
}
