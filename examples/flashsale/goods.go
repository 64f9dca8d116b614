package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"rideshare/examples/internal/db"
	"rideshare/examples/internal/web"
)

// maxAmount is the largest stock in units, and the highest price in cents, of any goods.
const maxAmount = 1_000_000_000

func (s *service) postGoods(w http.ResponseWriter, r *http.Request) error {
	var name string
	stock, price, hold := int64(-1), int64(-1), int64(300)
	starts, ends := time.UnixMilli(0), time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)
	err := web.Decode(r.Body, map[string]any{"name": &name, "stock": &stock, "price_cents": &price, "hold_seconds": &hold, "starts_at": &starts, "ends_at": &ends})
	switch {
	case err != nil:
		return err
	case name == "" || len(name) > 200:
		return invalid("name must have 1 to 200 bytes")
	case stock < 0 || stock > maxAmount || price < 0 || price > maxAmount:
		return invalid("stock and price_cents must be between 0 and %d", maxAmount)
	case hold < 0 || hold > 24*60*60:
		return invalid("hold_seconds must be between 0 and a day")
	case !ends.After(starts):
		return invalid("ends_at must be after starts_at")
	}
	key, err := newKey(r, "goods")
	if err != nil {
		return err
	}
	made, err := s.write(r.Context(), db.Options{Key: "goods-" + key.String(), Rows: true},
		db.SQL(insertGoods, name, price, hold*1000, starts.UnixMilli(), ends.UnixMilli(), stock, stock))
	if err != nil {
		return err
	}
	id := db.Int(made.Results[0].Values[0][0])
	w.Header().Set("Location", fmt.Sprint("/goods/", id))
	return web.Answer(w, http.StatusCreated, made, map[string]int64{"id": id})
}

func (s *service) listGoods(w http.ResponseWriter, r *http.Request) error {
	found, err := s.read(r, "", selectGoods+" ORDER BY goods_id")
	if err != nil {
		return err
	}
	list := []any{}
	for _, row := range found.Results[0].Values {
		list = append(list, goodsOf(row))
	}
	return web.Answer(w, http.StatusOK, found, list)
}

func (s *service) getGoods(w http.ResponseWriter, r *http.Request, id int64) error {
	found, row, err := s.readRow(r, "", "goods", selectGoods+" WHERE goods_id = ?", id)
	if err != nil {
		return err
	}
	return web.Answer(w, http.StatusOK, found, goodsOf(row))
}

// restock adds units. The change feed then clears the flag of goods that were sold out.
func (s *service) restock(w http.ResponseWriter, r *http.Request, id int64) error {
	var add int64
	if err := web.Decode(r.Body, map[string]any{"add": &add}); err != nil {
		return err
	}
	if add < 1 || add > maxAmount {
		return invalid("add must be between 1 and %d", maxAmount)
	}
	key, err := newKey(r, fmt.Sprint("restock ", id))
	if err != nil {
		return err
	}
	done, err := s.write(r.Context(), db.Options{Key: "restock-" + key.String(), Rows: true},
		db.SQL(addStock, add, add, id))
	if err != nil {
		return err
	}
	if len(done.Results[0].Values) == 0 {
		return unknown("goods")
	}
	return web.Answer(w, http.StatusOK, done, goodsOf(done.Results[0].Values[0]))
}

// goodsOf reads the goodsColumns of a row. It computes the state by this instance's clock, so that the database can answer the
// query from its cache. The state is only shown: orders are decided by the database's clock.
func goodsOf(row []any) map[string]any {
	state := "open"
	switch at := time.Now().UnixMilli(); {
	case at < db.Int(row[6]):
		state = "soon"
	case at > db.Int(row[7]):
		state = "ended"
	case db.Int(row[3]) == 0:
		state = "sold_out"
	}
	return map[string]any{"id": row[0], "name": row[1], "total": row[2], "free": row[3], "held": row[4], "sold": row[5], "state": state}
}

// audit compares the counts with the orders themselves. It reads at level strong, that is the newest state, at the master.
func (s *service) audit(w http.ResponseWriter, r *http.Request, id int64) error {
	found, row, err := s.readRow(r, "strong", "goods", selectAudit, id)
	if err != nil {
		return err
	}
	return web.Answer(w, http.StatusOK, found, map[string]any{
		"total": row[0], "free": row[1], "leased": row[2], "held": row[3], "sold": row[4],
		"orders": json.RawMessage(fmt.Sprint(row[5])), "ok": db.Int(row[6]) == 1, "seq": json.Number(found.Seq),
	})
}
