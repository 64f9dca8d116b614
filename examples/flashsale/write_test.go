package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"rideshare/examples/internal/db"
	"rideshare/examples/internal/web"
)

// Reading the stock and then writing it, without the constraint, sells units that do not exist. The audit says so.
func TestReadThenWrite_IsCaught(t *testing.T) {
	base := start(t)
	goods := sell(t, base, skis)
	id := goods[strings.LastIndex(goods, "/")+1:]
	c := db.New(database(t), "wrong", "")
	execute := func(ctx context.Context, text string, args ...any) error {
		answer, err := c.Execute(ctx, db.Options{}, db.SQL(text, args...))
		if err != nil {
			return err
		}
		return answer.Err()
	}
	for _, text := range []string{
		"DROP TABLE IF EXISTS wrong_goods", "DROP TABLE IF EXISTS wrong_orders",
		"CREATE TABLE wrong_goods(goods_id INTEGER PRIMARY KEY, total INTEGER, free INTEGER, leased INTEGER, held INTEGER, sold INTEGER)",
		"CREATE TABLE wrong_orders(order_id TEXT PRIMARY KEY NOT NULL, goods_id INTEGER, user_id TEXT, state TEXT)",
		"INSERT INTO wrong_goods VALUES (" + id + ", 10, 10, 0, 0, 0)",
	} {
		if err := execute(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	var looked, group sync.WaitGroup
	looked.Add(100)
	for i := range 100 {
		group.Go(func() {
			found, err := c.Query(t.Context(), db.Options{}, db.SQL("SELECT free FROM wrong_goods WHERE goods_id = ?", json.Number(id)))
			looked.Done()
			looked.Wait() // Every buyer has looked before the first one writes.
			if err != nil || db.Int(found.Results[0].Values[0][0]) == 0 {
				t.Errorf("buyer %d: got %+v, %v, want free units", i, found, err)
				return
			}
			left := db.Int(found.Results[0].Values[0][0]) - 1
			if err = execute(t.Context(), "UPDATE wrong_goods SET free = ?, held = total - ? WHERE goods_id = ?", left, left, json.Number(id)); err != nil {
				t.Error(err)
			}
			if err = execute(t.Context(), "INSERT INTO wrong_orders VALUES (?, ?, ?, 'HELD')", fmt.Sprint(i), json.Number(id), fmt.Sprint(i)); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	audit := strings.NewReplacer("sale_orders", "wrong_orders", "sale_goods", "wrong_goods").Replace(selectAudit)
	answer, err := c.Query(t.Context(), db.Options{Level: "strong"}, db.SQL(audit, json.Number(id)))
	if err != nil || answer.Err() != nil {
		t.Fatal(err, answer.Err())
	}
	if row := answer.Results[0].Values[0]; row[5] != `{"HELD":100}` || db.Int(row[6]) != 0 {
		t.Errorf("got %v, want 100 orders of 10 units, and an audit that is not ok", row)
	}
}

// Once the outcome of an order is unknown, a later 503 does not make it known: the answer is 504 with the order's id, under
// which the order is repeated.
func TestOrders_UnknownThenRefused_StaysUnknown(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	statuses := []int{http.StatusGatewayTimeout, http.StatusServiceUnavailable, http.StatusServiceUnavailable}
	keys := map[string]bool{}
	fake := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		keys[r.Header.Get("Idempotency-Key")] = true
		w.WriteHeader(statuses[0])
		if statuses = statuses[1:]; len(statuses) == 0 {
			cancel() // The client gives up.
		}
	}))
	defer fake.Close()
	s := &service{db: db.New(fake.URL, "flashsale", ""), soldOut: &soldOutFlags{}, rates: &rates{}}
	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/goods/1/orders", http.NoBody)
	r.Header.Set("X-User", "ann")
	s.handler().ServeHTTP(w, r)
	var p problem
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || w.Code != http.StatusGatewayTimeout || !keys["order-"+p.Order] || len(keys) != 1 {
		t.Errorf("got %d %s with the keys %v, want 504 with the order of the only key", w.Code, w.Body, keys)
	}
}

// A write that was done is answered as done, whatever becomes of a statement after it.
func TestWrites_DoneIsAnsweredAsDone(t *testing.T) {
	for _, tt := range []struct {
		name, method, path, body string
		results, want            string
	}{
		{"Pay", "POST", "/orders/o/pay", "", `[{"rows_affected":1},{"error":"execute timeout"}]`, `{"order":"o","state":"PAID"}`},
		{"Cancel", "DELETE", "/orders/o", "", `[{"rows_affected":1},{"error":"execute timeout"}]`, `{"order":"o","state":"CANCELLED"}`},
		{
			"Restock", "POST", "/goods/1/restock", `{"add":5}`, `[{"values":[[1,"skis",6,5,0,1,0,9000000000000000]],"rows_affected":1},{"error":"execute timeout"}]`,
			`{"free":5,"held":0,"id":1,"name":"skis","sold":1,"state":"open","total":6}`,
		},
	} {
		fake := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var statements []any
			var results []json.RawMessage
			err := errors.Join(json.NewDecoder(r.Body).Decode(&statements), json.Unmarshal([]byte(tt.results), &results))
			if err != nil || len(statements) > len(results) {
				t.Errorf("%s: got the statements %v, %v, want at most %d", tt.name, statements, err, len(results))
				return
			}
			_ = web.Answer(w, http.StatusOK, db.Answer{}, map[string]any{"results": results[:len(statements)]})
		}))
		t.Cleanup(fake.Close)
		s := &service{db: db.New(fake.URL, "flashsale", ""), soldOut: &soldOutFlags{}, rates: &rates{}}
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(t.Context(), tt.method, tt.path, strings.NewReader(tt.body))
		r.Header.Set("X-User", "ann")
		s.handler().ServeHTTP(w, r)
		if w.Code != http.StatusOK || strings.TrimSpace(w.Body.String()) != tt.want {
			t.Errorf("%s: got %d %s, want 200 %s", tt.name, w.Code, w.Body, tt.want)
		}
	}
}
