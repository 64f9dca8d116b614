package main

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"

	"rideshare/examples/internal/db"
	"rideshare/examples/internal/web"
)

// The states of an order. An order under a lease is answered pending; no row has that state.
const held, paid, expired, cancelled, pending = "HELD", "PAID", "EXPIRED", "CANCELLED", "PENDING"

// postOrder sells or holds one unit. What can be refused without the database is refused first: too many requests, no
// buyer, goods that are known to be sold out.
func (s *service) postOrder(w http.ResponseWriter, r *http.Request, goods int64) error {
	if wait := s.rates.take(goods); wait > 0 {
		return &problem{status: http.StatusTooManyRequests, retryAfter: wait, Message: "too many orders of these goods", Reason: "rate"}
	}
	user, err := buyer(r)
	if err != nil {
		return err
	}
	id, err := newKey(r, fmt.Sprintf("order %d %s", goods, user))
	if err != nil {
		return err
	}
	o := db.Options{Key: "order-" + id.String(), Rows: true}
	// The second statement says why the first is refused. It is in the same write, so that a retry gets the same reason.
	statements := []db.Statement{db.SQL(insertOrder, id, user, goods, nil), db.SQL(liveOrder, user, goods)}
	// A request with a key may be the retry of a request that got a unit, and must have the same statements at every instance.
	if r.Header.Get("Idempotency-Key") == "" {
		if lease := s.leases.unit(goods); lease != "" {
			o.Async, o.Rows = true, false
			statements = []db.Statement{db.SQL(insertOrder, id, user, goods, lease), db.SQL(refuseOrder, id, user, goods, lease)}
		} else if s.soldOut.has(goods) {
			return &problem{status: http.StatusConflict, Message: "sold out", Reason: "sold-out", By: "flag"}
		}
	}
	done, err := s.write(r.Context(), o, statements...)
	switch {
	case len(done.Results) == 2:
		return ordered(w, done, id)
	case err == nil:
		w.Header().Set("Location", "/orders/"+id.String())
		return web.Answer(w, http.StatusAccepted, done, map[string]any{"order": id, "state": pending})
	}
	p := problemOf(err)
	if p.status == http.StatusGatewayTimeout {
		p.Order = id.String()
	}
	return p
}

// ordered sends the answer for the results of insertOrder and liveOrder.
func ordered(w http.ResponseWriter, done db.Answer, id uuid.UUID) error {
	made, live := done.Results[0], done.Results[1].Values
	switch {
	case len(made.Values) == 1:
		return created(w, done, id, made.Values[0])
	case strings.Contains(made.Error, errSoldOut):
		return &problem{status: http.StatusConflict, Message: "sold out", Reason: "sold-out", By: "database"}
	case strings.Contains(made.Error, errDuplicate) && len(live) == 1:
		if live[0][0] == id.String() {
			return created(w, done, id, live[0][1:])
		}
		p := &problem{status: http.StatusConflict, Message: "this buyer has an order of these goods", Reason: "duplicate", Order: id.String()}
		if live[0][0] != nil { // NULL: this order ended so long ago that the database no longer has the stored answer.
			p.Order = fmt.Sprint(live[0][0])
		}
		return p
	case done.Err() != nil:
		return done.Err()
	case len(live) == 0:
		return unknown("goods")
	default:
		return &problem{status: http.StatusConflict, Message: "the sale is not open", Reason: "not-open"}
	}
}

// created answers with a new order, whose row is its state and its end.
func created(w http.ResponseWriter, from db.Answer, id uuid.UUID, row []any) error {
	body := map[string]any{"order": id, "state": row[0]}
	if row[0] == held {
		body["expires_at"] = moment(row[1])
	}
	w.Header().Set("Location", "/orders/"+id.String())
	return web.Answer(w, http.StatusCreated, from, body)
}

func moment(value any) time.Time { return time.UnixMilli(db.Int(value)).UTC() }

func (s *service) getOrder(w http.ResponseWriter, r *http.Request) error {
	user, err := buyer(r)
	if err != nil {
		return err
	}
	id := r.PathValue("id")
	found, row, err := s.readRow(r, "", "order", selectOrder, id)
	switch {
	case len(found.Results) == 1 && row == nil && s.undecided(id):
		return web.Answer(w, http.StatusOK, found, map[string]string{"order": id, "user": user, "state": pending})
	case err != nil:
		return err
	case row[4] != user:
		return unknown("order")
	}
	return web.Answer(w, http.StatusOK, found, map[string]any{
		"order": id, "goods": row[0], "user": user, "state": row[1], "created_at": moment(row[2]), "expires_at": moment(row[3]),
	})
}

// undecided reports whether the write of an order without a row may still arrive: until the last attempt has ended, or under a
// lease until the database has ended the accepted operation. Only the id of an order without a client's key has a time.
func (s *service) undecided(id string) bool {
	made, err := uuid.Parse(id)
	age := time.Since(time.Unix(made.Time().UnixTime())).Abs()
	return err == nil && made.Version() == 7 && (age < writeLimit+db.CallLimit || s.leases != nil && age < time.Hour)
}

// payOrCancel pays or cancels an order with one statement. If the statement changed nothing, the order's state after it decides
// the answer: the wanted state is 200, since an earlier request caused it.
func (s *service) payOrCancel(w http.ResponseWriter, r *http.Request) error {
	user, err := buyer(r)
	if err != nil {
		return err
	}
	id, statement, want := r.PathValue("id"), payOrder, paid
	if r.Method == http.MethodDelete {
		statement, want = cancelOrder, cancelled
	}
	done, err := s.write(r.Context(), db.Options{Key: strings.ToLower(want) + "-" + uuid.NewString(), Rows: true},
		db.SQL(statement, id, user), db.SQL(selectOrder, id))
	switch {
	case len(done.Results) > 0 && done.Results[0].RowsAffected == 1: // Even if the second statement failed.
		return web.Answer(w, http.StatusOK, done, map[string]string{"order": id, "state": want})
	case err != nil:
		return err
	}
	rows := done.Results[1].Values
	switch {
	case len(rows) == 0 && s.undecided(id):
		return &problem{status: http.StatusConflict, Message: "the order is not decided yet", Reason: strings.ToLower(pending)}
	case len(rows) == 0 || rows[0][4] != user:
		return unknown("order")
	}
	state := fmt.Sprint(rows[0][1])
	if state == want {
		return web.Answer(w, http.StatusOK, done, map[string]string{"order": id, "state": want})
	}
	if state == held { // It could not be paid because its time is over, and no sweep has seen that yet.
		state = expired
	}
	p := &problem{status: http.StatusConflict, Message: "the order is " + state, Reason: strings.ToLower(state)}
	if want == paid && state == expired {
		p.status = http.StatusGone
	}
	return p
}
