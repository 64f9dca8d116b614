package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"rideshare/examples/internal/db"
	"rideshare/examples/internal/web"
)

// writeLimit is how long a write is retried while its outcome is unknown.
const writeLimit = 10 * time.Second

// service answers the routes. It keeps nothing that the database does not have, so several instances run side by side.
type service struct {
	db      *db.Client
	soldOut *soldOutFlags
	rates   *rates
	leases  *leases // nil: none
}

// handler returns the routes.
func (s *service) handler() http.Handler {
	return web.Routes(map[string]web.Handler{
		"POST /goods":              s.postGoods,
		"GET /goods":               s.listGoods,
		"GET /goods/{id}":          ofGoods(s.getGoods),
		"POST /goods/{id}/restock": ofGoods(s.restock),
		"GET /goods/{id}/audit":    ofGoods(s.audit),
		"POST /goods/{id}/orders":  ofGoods(s.postOrder),
		"GET /orders/{id}":         s.getOrder,
		"POST /orders/{id}/pay":    s.payOrCancel,
		"DELETE /orders/{id}":      s.payOrCancel,
		"GET /readyz":              s.ready,
	}, func(w http.ResponseWriter, err error) {
		p := problemOf(err)
		web.Fail(w, p.status, p.retryAfter, p)
	})
}

// problem is an answer whose status is not 2xx.
type problem struct {
	status     int
	retryAfter time.Duration
	Message    string `json:"message"`
	Reason     string `json:"reason,omitempty"`
	Order      string `json:"order,omitempty"` // the order that the message is about
	By         string `json:"by,omitempty"`    // who knew that the goods are sold out: flag or database
}

func (p *problem) Error() string { return p.Message }

func invalid(format string, args ...any) error {
	return &problem{status: http.StatusBadRequest, Message: fmt.Sprintf(format, args...)}
}

func unknown(what string) error {
	return &problem{status: http.StatusNotFound, Message: "unknown " + what}
}

// problemOf returns the answer for an error: one of our own, or a refusal of the database.
func problemOf(err error) *problem {
	if p, own := errors.AsType[*problem](err); own {
		return p
	}
	refused, known := errors.AsType[*db.Refusal](err)
	if !known {
		return &problem{status: http.StatusInternalServerError, Message: err.Error()}
	}
	p := &problem{status: refused.Status, Message: refused.Message, Reason: refused.Reason, retryAfter: refused.RetryAfter}
	if refused.Unknown() {
		p.status = http.StatusGatewayTimeout
	} else if p.status == http.StatusUnauthorized || p.status == http.StatusForbidden { // The operator's mistake, not the client's.
		p.status = http.StatusServiceUnavailable
	}
	return p
}

// ofGoods returns a handler that calls handle with the goods that the path names.
func ofGoods(handle func(http.ResponseWriter, *http.Request, int64) error) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		id, err := strconv.ParseInt(r.PathValue("id"), 10, 64)
		if err != nil || id < 1 {
			return unknown("goods")
		}
		return handle(w, r, id)
	}
}

// buyer returns the buyer whom the header X-User names. The request must have no body.
func buyer(r *http.Request) (string, error) {
	if name := r.Header.Get("X-User"); printable(name, 64) {
		return name, web.Decode(r.Body, nil)
	}
	return "", invalid("X-User must have 1 to 64 printable characters")
}

// printable reports whether text has 1 to longest printable characters.
func printable(text string, longest int) bool {
	strange := strings.ContainsFunc(text, func(c rune) bool { return !unicode.IsPrint(c) })
	return text != "" && utf8.ValidString(text) && utf8.RuneCountInString(text) <= longest && !strange
}

// newKey returns the key of a write. It is derived from the client's Idempotency-Key and about, or new if the client sent
// none.
func newKey(r *http.Request, about string) (uuid.UUID, error) {
	switch given := r.Header.Values("Idempotency-Key"); {
	case len(given) == 0:
		return uuid.Must(uuid.NewV7()), nil // It cannot fail.
	case len(given) > 1 || !printable(given[0], 255):
		return uuid.UUID{}, invalid("Idempotency-Key must have 1 to 255 printable characters")
	default:
		return uuid.NewSHA1(uuid.NameSpaceURL, []byte(about+"\n"+given[0])), nil
	}
}

// write runs statements, which must have a key, until their outcome is known, at most for writeLimit. If a statement
// failed, write returns both an error and the answer.
func (s *service) write(ctx context.Context, o db.Options, statements ...db.Statement) (db.Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, writeLimit)
	defer cancel()
	answer, err := s.db.Insist(ctx, o, statements...)
	return answer, cmp.Or(err, answer.Err())
}

// read runs one query at the position that the client wants to see.
func (s *service) read(r *http.Request, level, text string, args ...any) (db.Answer, error) {
	o := db.Options{Level: level, MinSeq: r.Header.Get("X-Min-Seq"), Cluster: r.Header.Get("X-Cluster-Id")}
	answer, err := s.db.Query(r.Context(), o, db.SQL(text, args...))
	return answer, cmp.Or(err, answer.Err())
}

// readRow is read for a query with at most one row. Without a row it returns an error with status 404, and the answer;
// after a failure it returns no answer.
func (s *service) readRow(r *http.Request, level, what, text string, args ...any) (found db.Answer, row []any, err error) {
	if found, err = s.read(r, level, text, args...); err != nil {
		return db.Answer{}, nil, err
	}
	if len(found.Results[0].Values) == 0 {
		return found, nil, unknown(what)
	}
	return found, found.Results[0].Values[0], nil
}

func (s *service) ready(w http.ResponseWriter, r *http.Request) error {
	found, err := s.read(r, "", "SELECT count(*) FROM sale_goods WHERE goods_id = 0")
	if err != nil {
		return &problem{status: http.StatusServiceUnavailable, Message: err.Error()}
	}
	return web.Answer(w, http.StatusOK, found, struct{}{})
}
