package main

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"rideshare/internal/dbaas"
	"rideshare/internal/sqlite"
	"rideshare/internal/sqltext"
)

// file is a database file with the schema, without the rest of the database service.
func file(t *testing.T) *sqlite.Conn {
	t.Helper()
	c, err := sqlite.Open(filepath.Join(t.TempDir(), "sale.db"), sqlite.Options{ForeignKeys: true, Triggers: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	for text := range sqltext.Statements(schema) {
		if err := c.Exec(text); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	return c
}

// values turns arguments into values of the engine.
func values(args ...any) []dbaas.Value {
	list := make([]dbaas.Value, len(args))
	for i, arg := range args {
		switch v := arg.(type) {
		case int:
			list[i] = dbaas.Integer(int64(v))
		case string:
			list[i] = dbaas.Text(v)
		}
	}
	return list
}

// model is what the counts of the goods must be, by the states of the orders.
type model struct {
	total  int
	orders map[string]*modelOrder // by id
	leases map[string]int         // the unused units of each
}

type modelOrder struct {
	buyer, state string
	due          bool
}

func (m *model) count(state string) int {
	n := 0
	for _, o := range m.orders {
		if o.state == state {
			n++
		}
	}
	return n
}

func (m *model) leased() int {
	n := 0
	for _, left := range m.leases {
		n += left
	}
	return n
}

func (m *model) free() int { return m.total - m.leased() - m.count(held) - m.count(paid) }

func (m *model) live(buyer string) bool {
	for _, o := range m.orders {
		if o.buyer == buyer && (o.state == held || o.state == paid) {
			return true
		}
	}
	return false
}

// Whatever buyers and instances do in whatever order, the triggers keep total = free + leased + held + sold, and held and sold are the
// orders in those states. What the model refuses is refused.
func TestSchema_AnyActions_CountsAreTheOrders(t *testing.T) {
	c := file(t)
	if err := c.Exec("PRAGMA synchronous = OFF"); err != nil {
		t.Fatal(err)
	}
	goods := 0
	rapid.Check(t, func(t *rapid.T) {
		goods++
		m := &model{total: rapid.IntRange(0, 9).Draw(t, "stock"), orders: map[string]*modelOrder{}, leases: map[string]int{"": 0}}
		hold := rapid.SampledFrom([]int{0, 60_000}).Draw(t, "hold")
		if err := c.Exec(insertGoods, values("skis", 100, hold, 0, 1<<60, m.total, m.total)...); err != nil {
			t.Fatal(err)
		}
		a := actions{c: c, m: m, goods: goods, hold: hold}
		for i := range rapid.IntRange(1, 30).Draw(t, "actions") {
			a.next(t, i)
			a.compare(t)
		}
	})
}

// actions does the same things to the file and to the model.
type actions struct {
	c           *sqlite.Conn
	m           *model
	goods, hold int
}

func (a *actions) next(t *rapid.T, i int) {
	buyer := rapid.SampledFrom([]string{"ann", "bob", "cid", "dan", "eve"}).Draw(t, "buyer")
	id := rapid.SampledFrom(append([]string{""}, a.ids(i)...)).Draw(t, "order")
	o := a.m.orders[id]
	if o == nil {
		o = &modelOrder{}
	}
	lease := rapid.SampledFrom(slices.Sorted(maps.Keys(a.m.leases))).Draw(t, "lease")
	switch rapid.SampledFrom([]string{"order", "order", "lease", "close", "pay", "cancel", "due", "expire", "restock"}).Draw(t, "action") {
	case "order":
		a.order(t, fmt.Sprintf("%d-%d", a.goods, i), buyer, lease)
	case "lease":
		units := a.m.free() / 4
		a.run(t, insertLease, fmt.Sprintf("lease %d-%d", a.goods, i), a.goods, 1, 1<<40)
		if units > 0 {
			a.m.leases[fmt.Sprintf("lease %d-%d", a.goods, i)] = units
		}
	case "close":
		a.run(t, "UPDATE sale_leases SET expires_at = 0 WHERE lease_id = ?", lease)
		a.run(t, renewLease, lease, 0, 0, 1<<40) // It is too late.
		a.run(t, closeLeases)
		a.m.leases[lease] = 0
	case "pay":
		a.run(t, payOrder, id, o.buyer)
		if o.state == held && !o.due {
			o.state = paid
		}
	case "cancel":
		a.run(t, cancelOrder, id, o.buyer)
		if o.state == held {
			o.state = cancelled
		}
	case "due":
		a.run(t, "UPDATE sale_orders SET expires_at = 0 WHERE order_id = ?", id)
		o.due = true
	case "expire":
		a.run(t, expireOrders, sweepLimit)
		for _, o := range a.m.orders {
			if o.state == held && o.due {
				o.state = expired
			}
		}
	case "restock":
		a.run(t, addStock, 2, 2, a.goods)
		a.m.total += 2
	}
}

// ids are the ids that orders may have had before action i.
func (a *actions) ids(i int) []string {
	var ids []string
	for n := range i {
		ids = append(ids, fmt.Sprintf("%d-%d", a.goods, n))
	}
	return ids
}

func (a *actions) run(t *rapid.T, text string, args ...any) {
	if err := a.c.Exec(text, values(args...)...); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

func (a *actions) order(t *rapid.T, id, buyer, lease string) {
	under := []any{id, buyer, a.goods, nil}
	refused := a.m.live(buyer) || a.m.free() == 0
	if lease != "" {
		under[3], refused = lease, a.m.live(buyer) || a.m.leases[lease] == 0
	}
	err := a.c.Exec(insertOrder, values(under...)...)
	if (err != nil) != refused {
		t.Fatalf("an order of %s under %q: got error %v, want refused %v", buyer, lease, err, refused)
	}
	if lease != "" {
		a.run(t, refuseOrder, under...)
	}
	if !refused {
		a.m.orders[id] = &modelOrder{buyer: buyer, state: map[bool]string{true: paid, false: held}[a.hold == 0]}
		a.m.leases[lease]--
		a.m.leases[""] = 0
	}
}

func (a *actions) compare(t *rapid.T) {
	var got [6]int
	err := a.c.Query(selectAudit, func(r sqlite.Row) error {
		for to, from := range []int{0, 1, 2, 3, 4, 6} {
			got[to] = int(r.Int(from))
		}
		return nil
	}, values(a.goods)...)
	if want := [6]int{a.m.total, a.m.free(), a.m.leased(), a.m.count(held), a.m.count(paid), 1}; err != nil || got != want {
		t.Fatalf("total, free, leased, held, sold, ok: got %v, want %v (%v)", got, want, err)
	}
}

// Each refusal has the text by which the service knows it, and leaves nothing.
func TestSchema_Refusals(t *testing.T) {
	c := file(t)
	for _, g := range []struct{ starts, ends int }{{0, 1 << 60}, {1 << 59, 1 << 60}, {0, 1}} {
		if err := c.Exec(insertGoods, values("skis", 100, 1000, g.starts, g.ends, 1, 1)...); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		name, id, buyer string
		goods, rows     int
		want            string // a part of the error
	}{
		{"First", "o1", "ann", 1, 1, "<nil>"},
		{"SameBuyer", "o2", "ann", 1, 0, errDuplicate}, // Also when the goods are sold out.
		{"SoldOut", "o3", "bob", 1, 0, errSoldOut},
		{"TooEarly", "o4", "ann", 2, 0, "<nil>"},
		{"TooLate", "o5", "ann", 3, 0, "<nil>"},
		{"Unknown", "o6", "ann", 4, 0, "<nil>"},
	} {
		rows := 0
		err := c.Query(insertOrder, func(sqlite.Row) error { rows++; return nil }, values(tt.id, tt.buyer, tt.goods, nil)...)
		if rows != tt.rows || !strings.Contains(fmt.Sprint(err), tt.want) {
			t.Errorf("%s: got %d rows and error %v, want %d and %s", tt.name, rows, err, tt.rows, tt.want)
		}
	}
}

// The audit is not ok if the units of the leases are not those that the goods have leased.
func TestSchema_AuditOfLeases(t *testing.T) {
	c := file(t)
	ok := func() (ok bool) {
		if err := c.Query(selectAudit, func(r sqlite.Row) error { ok = r.Int(6) == 1; return nil }, values(1)...); err != nil {
			t.Fatal(err)
		}
		return ok
	}
	for _, step := range []struct {
		text string
		args []any
		want bool
	}{
		{insertGoods, []any{"skis", 100, 0, 0, 1 << 60, 8, 8}, true},
		{insertLease, []any{"lease", 1, 1, 1 << 40}, true},
		{insertOrder, []any{"order", "ann", 1, "lease"}, true},
		{"UPDATE sale_leases SET used = used - 1", nil, false},
	} {
		if err := c.Exec(step.text, values(step.args...)...); err != nil || ok() != step.want {
			t.Errorf("after %s: got error %v and ok %v, want %v", step.text, err, ok(), step.want)
		}
	}
}
