package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"rideshare/internal/testkit/testenv"
)

// got is an answer of the service.
type got struct {
	status int
	head   http.Header
	body   map[string]any
}

// call sends one request; head is names and values in turn.
func call(t *testing.T, method, url, body string, head ...string) got {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(head); i += 2 {
		req.Header.Set(head[i], head[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	g := got{status: resp.StatusCode, head: resp.Header}
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if err = json.Unmarshal(text, &g.body); err != nil && !strings.HasPrefix(string(text), "[") {
		t.Fatalf("%s %s: %d %s: %v", method, url, resp.StatusCode, text, err)
	}
	return g
}

// sell puts goods on sale, and returns their URL.
func sell(t *testing.T, base, body string) string {
	t.Helper()
	g := call(t, http.MethodPost, base+"/goods", body)
	if g.status != http.StatusCreated || g.head.Get("X-Seq") == "" {
		t.Fatalf("got %+v, want 201 with X-Seq", g)
	}
	return base + g.head.Get("Location")
}

const skis = `{"name":"skis","stock":1,"price_cents":100}`

// An order goes from HELD to its end, each step says what it did, and the audit agrees.
func TestOrders_FromHeldToTheirEnd(t *testing.T) {
	base := start(t)
	goods := sell(t, base, `{"name":"skis","stock":2,"price_cents":100}`)
	first := call(t, http.MethodPost, goods+"/orders", "", "X-User", "ann")
	order := base + first.head.Get("Location")
	if first.status != 201 || first.body["state"] != held || first.body["expires_at"] == nil || first.head.Get("X-Seq") == "" {
		t.Fatalf("order: got %+v", first)
	}
	again := call(t, http.MethodPost, goods+"/orders", "", "X-User", "ann")
	if again.status != 409 || again.body["reason"] != "duplicate" || again.body["order"] != first.body["order"] {
		t.Errorf("second order of a buyer: got %+v, want 409 with the first", again)
	}
	other := base + call(t, http.MethodPost, goods+"/orders", "", "X-User", "bob").head.Get("Location")
	for _, step := range []struct {
		name, method, url, user string
		status                  int
		state                   any
	}{
		{"NotTheBuyer", "GET", order, "bob", 404, nil},
		{"Read", "GET", order, "ann", 200, held},
		{"PayOfAnother", "POST", order + "/pay", "bob", 404, nil},
		{"NotPaid", "GET", order, "ann", 200, held},
		{"CancelOfAnother", "DELETE", order, "bob", 404, nil},
		{"NotCancelled", "GET", order, "ann", 200, held},
		{"Pay", "POST", order + "/pay", "ann", 200, paid},
		{"PayAgain", "POST", order + "/pay", "ann", 200, paid},
		{"CancelPaid", "DELETE", order, "ann", 409, nil},
		{"Cancel", "DELETE", other, "bob", 200, cancelled},
		{"CancelAgain", "DELETE", other, "bob", 200, cancelled},
		{"PayCancelled", "POST", other + "/pay", "bob", 409, nil},
		{"NoOrder", "POST", base + "/orders/x/pay", "bob", 404, nil},
		{"NoBuyer", "POST", order + "/pay", "", 400, nil},
	} {
		g := call(t, step.method, step.url, "", "X-User", step.user, "X-Min-Seq", first.head.Get("X-Seq"))
		if g.status != step.status || g.body["state"] != step.state || (step.status == 200 && g.head.Get("X-Seq") == "") {
			t.Errorf("%s: got %+v, want %d with state %v", step.name, g, step.status, step.state)
		}
	}
	audit := call(t, http.MethodGet, goods+"/audit", "")
	if want := "map[free:1 held:0 leased:0 ok:true orders:map[CANCELLED:1 PAID:1] sold:1 total:2]"; fmt.Sprint(without(audit.body, "seq")) != want {
		t.Errorf("audit: got %v, want %s", audit.body, want)
	}
}

// v7 is an order's id that was made before.
func v7(t *testing.T, before time.Duration) string {
	t.Helper()
	id, ms := uuid.Must(uuid.NewV7()), time.Now().Add(-before).UnixMilli()
	for i := range 6 {
		id[i] = byte(ms >> (40 - 8*i))
	}
	return id.String()
}

// An order without a row is pending while its write may still arrive, also without leases. So a 404 is final, but for the id of
// an order with a key, which has no time. No order of another buyer is pending.
func TestOrders_UnknownIDIsPendingWhileItsWriteMayArrive(t *testing.T) {
	bases := map[bool]string{false: start(t), true: start(t, "--leases", "1")}
	other := call(t, http.MethodPost, sell(t, bases[false], skis)+"/orders", "", "X-User", "bob")
	for _, tt := range []struct {
		name, id string
		leases   bool
		want     int
	}{
		{"New", v7(t, 0), false, 200},
		{"OfAClockAhead", v7(t, -5*time.Second), false, 200},
		{"Old", v7(t, 31*time.Second), false, 404},
		{"OldWithLeases", v7(t, 31*time.Second), true, 200},
		{"VeryOldWithLeases", v7(t, 2*time.Hour), true, 404},
		{"OfAKey", uuid.NewSHA1(uuid.NameSpaceURL, []byte("k")).String(), false, 404},
		{"NoID", "x", false, 404},
		{"OfAnother", other.body["order"].(string), false, 404},
		{"OfAnotherWithLeases", other.body["order"].(string), true, 404},
	} {
		order := bases[tt.leases] + "/orders/" + tt.id
		head := []string{"X-User", "ann", "X-Min-Seq", other.head.Get("X-Seq")}
		if g := call(t, http.MethodGet, order, "", head...); g.status != tt.want || (tt.want == 200) != (g.body["state"] == pending) {
			t.Errorf("%s: got %+v, want %d", tt.name, g, tt.want)
		}
		want := map[int]int{200: 409, 404: 404}[tt.want]
		if g := call(t, http.MethodPost, order+"/pay", "", head...); g.status != want {
			t.Errorf("%s, pay: got %+v, want %d", tt.name, g, want)
		}
	}
}

func without(m map[string]any, name string) map[string]any {
	delete(m, name)
	return m
}

// Every request that is wrong is refused as the rules say.
func TestRoutes_Refusals(t *testing.T) {
	base := start(t)
	goods := sell(t, base, skis)
	soon := sell(t, base, `{"name":"s","stock":1,"price_cents":1,"starts_at":"2999-01-01T00:00:00Z"}`)
	for _, tt := range []struct {
		name, method, url, body string
		status                  int
	}{
		{"NoStock", "POST", base + "/goods", `{"name":"s","price_cents":1}`, 400},
		{"UnknownMember", "POST", base + "/goods", `{"name":"s","stock":1,"price_cents":1,"x":1}`, 400},
		{"DuplicateMember", "POST", base + "/goods", `{"name":"s","stock":1,"price_cents":1,"stock":1}`, 400},
		{"OtherCase", "POST", base + "/goods", `{"name":"s","Stock":1,"price_cents":1}`, 400},
		{"NullBody", "POST", goods + "/orders", `null`, 400},
		{"NullMember", "POST", base + "/goods", `{"name":"s","stock":1,"price_cents":1,"hold_seconds":null}`, 400},
		{"OtherType", "POST", base + "/goods", `{"name":"s","stock":"1","price_cents":1}`, 400},
		{"List", "POST", goods + "/restock", `[]`, 400},
		{"Truncated", "POST", goods + "/restock", `{"add":1`, 400},
		{"TooLong", "POST", goods + "/restock", strings.Repeat(" ", 70<<10) + `{"add":1}`, 413},
		{"TwoValues", "POST", base + "/goods", skis + skis, 400},
		{"NegativePrice", "POST", base + "/goods", `{"name":"s","stock":1,"price_cents":-1}`, 400},
		{"EndBeforeStart", "POST", base + "/goods", `{"name":"s","stock":1,"price_cents":1,"ends_at":"1960-01-01T00:00:00Z"}`, 400},
		{"RestockNothing", "POST", goods + "/restock", `{}`, 400},
		{"RestockUnknown", "POST", base + "/goods/999999/restock", `{"add":1}`, 404},
		{"OrderUnknown", "POST", base + "/goods/999999/orders", "", 404},
		{"OrderNoNumber", "POST", base + "/goods/x/orders", "", 404},
		{"OrderWithBody", "POST", goods + "/orders", `{"x":1}`, 400},
		{"NotOpen", "POST", soon + "/orders", "", 409},
		{"AuditUnknown", "GET", base + "/goods/999999/audit", "", 404},
		{"Path", "GET", base + "/nothing", "", 404},
		{"Method", "PUT", goods, "", 405},
	} {
		g := call(t, tt.method, tt.url, tt.body, "X-User", "ann")
		if g.status != tt.status || g.body["message"] == "" || (tt.status == 405) != (g.head.Get("Allow") != "") {
			t.Errorf("%s: got %+v, want %d with a message", tt.name, g, tt.status)
		}
	}
	for url, want := range map[string]string{goods: "open", soon: "soon"} {
		if g := call(t, http.MethodGet, url, ""); g.body["state"] != want || g.head.Get("X-Cache") == "" {
			t.Errorf("got %+v, want state %s and X-Cache", g, want)
		}
	}
	for _, path := range []string{"/livez", "/readyz", "/goods"} {
		if g := call(t, http.MethodGet, base+path, ""); g.status != http.StatusOK {
			t.Errorf("%s: got %+v, want 200", path, g)
		}
	}
}

// A buyer's name has 1 to 64 printable characters of any alphabet.
func TestOrders_BuyersName(t *testing.T) {
	base := start(t)
	goods := sell(t, base, `{"name":"skis","stock":9,"price_cents":100}`)
	for name, want := range map[string]int{
		"Zoë Müller": 201, "雪": 201, strings.Repeat("é", 64): 201,
		strings.Repeat("é", 65): 400, "": 400, "a\tb": 400, "a\u0085b": 400, "a\xffb": 400,
	} {
		g := call(t, http.MethodPost, goods+"/orders", "", "X-User", name)
		if g.status != want {
			t.Errorf("%q: got %+v, want %d", name, g, want)
		}
		if order := base + g.head.Get("Location"); want == 201 {
			if g = call(t, http.MethodGet, order, "", "X-User", name, "X-Min-Seq", g.head.Get("X-Seq")); g.body["user"] != name {
				t.Errorf("%q: got %+v", name, g)
			}
		}
	}
}

// A repeated request with a key has one effect and one answer, also after the last unit is gone and while others run.
func TestOrders_SameKey_OneEffectOneAnswer(t *testing.T) {
	base := start(t)
	goods := sell(t, base, skis)
	answers := make([]got, 10)
	var group sync.WaitGroup
	for i := range answers {
		group.Go(func() {
			answers[i] = call(t, http.MethodPost, goods+"/orders", "", "X-User", "ann", "Idempotency-Key", "k")
		})
	}
	group.Wait()
	for _, g := range answers {
		if g.status != 201 || g.body["order"] != answers[0].body["order"] || g.body["expires_at"] != answers[0].body["expires_at"] {
			t.Errorf("got %+v, want %+v", g, answers[0])
		}
	}
}

// Once the feed says that nothing is free, the service answers by itself, but for a request with a key. A unit that comes
// back clears the flag, and so does a restock.
func TestFlag_SoldOut_AnsweredWithoutTheDatabase(t *testing.T) {
	base, without := start(t), start(t, "--sold-out-flag=false")
	goods := sell(t, base, skis)
	order := base + call(t, http.MethodPost, goods+"/orders", "", "X-User", "ann").head.Get("Location")
	by := func(want any) {
		t.Helper()
		testenv.Eventually(t, 30*time.Second, func() error {
			if g := call(t, http.MethodPost, goods+"/orders", "", "X-User", "bob"); g.body["by"] != want {
				return fmt.Errorf("got %+v, want sold out by %v", g, want)
			}
			return nil
		})
	}
	by("flag")
	if g := call(t, http.MethodPost, goods+"/orders", "", "X-User", "cid", "Idempotency-Key", "k"); g.body["by"] != "database" {
		t.Errorf("a request with a key: got %+v, want the database's answer", g)
	}
	if g := call(t, http.MethodPost, without+strings.TrimPrefix(goods, base)+"/orders", "", "X-User", "bob"); g.body["by"] != "database" {
		t.Errorf("an instance that does not use the flag: got %+v, want the database's answer", g)
	}
	call(t, http.MethodDelete, order, "", "X-User", "ann")
	by(nil) // bob gets the unit.
	if g := call(t, http.MethodPost, goods+"/restock", `{"add":1}`); g.status != 200 || g.body["total"] != 2.0 {
		t.Errorf("restock: got %+v", g)
	}
	testenv.Eventually(t, 30*time.Second, func() error {
		if g := call(t, http.MethodPost, goods+"/orders", "", "X-User", "dan"); g.status != 201 {
			return fmt.Errorf("got %+v, want 201", g)
		}
		return nil
	})
}

// A hold that is not paid in time is swept, and its unit is sold again. It cannot be paid any more.
func TestSweep_ExpiredHold_UnitComesBack(t *testing.T) {
	base := start(t)
	goods := sell(t, base, `{"name":"s","stock":1,"price_cents":1,"hold_seconds":1}`)
	order := base + call(t, http.MethodPost, goods+"/orders", "", "X-User", "ann").head.Get("Location")
	testenv.Eventually(t, 30*time.Second, func() error {
		if g := call(t, http.MethodGet, order, "", "X-User", "ann"); g.body["state"] != expired {
			return fmt.Errorf("got %+v, want it expired", g)
		}
		return nil
	})
	if g := call(t, http.MethodPost, order+"/pay", "", "X-User", "ann"); g.status != http.StatusGone {
		t.Errorf("pay: got %+v, want 410", g)
	}
	if g := call(t, http.MethodGet, goods, ""); g.body["free"] != 1.0 {
		t.Errorf("got %+v, want the unit free again", g)
	}
}

// Orders beyond the quota are refused at once, before the buyer is looked at.
func TestRate_BeyondTheQuota_429(t *testing.T) {
	base := start(t, "--rate", "0.001:1")
	goods := sell(t, base, skis)
	if g := call(t, http.MethodPost, goods+"/orders", "", "X-User", "ann"); g.status != 201 {
		t.Errorf("first: got %+v, want 201", g)
	}
	if g := call(t, http.MethodPost, goods+"/orders", ""); g.status != 429 || g.head.Get("Retry-After") == "" {
		t.Errorf("second: got %+v, want 429", g)
	}
}
