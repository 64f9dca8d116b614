package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"rideshare/examples/internal/db"
)

// requestLimit bounds a request, and so also how long a write whose outcome is unknown is retried.
const requestLimit = 10 * time.Second

// service answers the routes. It keeps nothing that the database does not have, so several instances run side by side.
type service struct {
	db     *db.Client
	flags  *flags
	rates  *rates
	leases *leases // nil: none
}

// problem is every answer without a 2xx.
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

// handler returns the routes.
func (s *service) handler() http.Handler {
	mux := http.NewServeMux()
	for route, handle := range map[string]func(http.ResponseWriter, *http.Request) error{
		"POST /goods":              s.postGoods,
		"GET /goods":               s.listGoods,
		"GET /goods/{id}":          ofGoods(s.getGoods),
		"POST /goods/{id}/restock": ofGoods(s.restock),
		"GET /goods/{id}/audit":    ofGoods(s.audit),
		"POST /goods/{id}/orders":  ofGoods(s.postOrder),
		"GET /orders/{id}":         s.getOrder,
		"POST /orders/{id}/pay":    s.end,
		"DELETE /orders/{id}":      s.end,
		"GET /livez":               func(w http.ResponseWriter, _ *http.Request) error { return reply(w, 200, db.Answer{}, struct{}{}) },
		"GET /readyz":              s.ready,
	} {
		mux.HandleFunc(route, func(w http.ResponseWriter, r *http.Request) {
			r.Body = http.MaxBytesReader(w, r.Body, 64<<10)
			ctx, cancel := context.WithTimeout(r.Context(), requestLimit)
			defer cancel()
			if err := handle(w, r.WithContext(ctx)); err != nil {
				problemOf(err).send(w)
			}
		})
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, pattern := mux.Handler(r); pattern == "" {
			w = refusal{w}
		}
		mux.ServeHTTP(w, r)
	})
}

// refusal gives the mux's own answers, 404 and 405, the form of a problem.
type refusal struct{ http.ResponseWriter }

func (w refusal) WriteHeader(status int) {
	(&problem{status: status, Message: http.StatusText(status)}).send(w.ResponseWriter)
}

func (w refusal) Write(text []byte) (int, error) { return len(text), nil }

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
	if refused.Unknown() || refused.Status == http.StatusConflict { // 409: an earlier attempt still runs.
		p.status = http.StatusGatewayTimeout
	} else if p.status == http.StatusUnauthorized || p.status == http.StatusForbidden { // The operator's mistake, not the client's.
		p.status = http.StatusServiceUnavailable
	}
	return p
}

func (p *problem) send(w http.ResponseWriter) {
	if p.status == http.StatusTooManyRequests || p.status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", fmt.Sprint(math.Ceil(cmp.Or(p.retryAfter, time.Second).Seconds())))
	}
	_ = reply(w, p.status, db.Answer{}, p) // It returns no error.
}

// reply sends an answer and the position of the database's answer that it comes from.
func reply(w http.ResponseWriter, status int, from db.Answer, body any) error {
	for name, value := range map[string]string{"X-Seq": from.Seq, "X-Cluster-Id": from.Cluster, "X-Cache": from.Cache} {
		if value != "" {
			w.Header().Set(name, value)
		}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // The client has gone if this fails.
	return nil
}

// decode reads a body that must be one JSON object without unknown members. An empty body is an empty object.
func decode(r *http.Request, into any) error {
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil && !errors.Is(err, io.EOF) {
		return invalid("the body: %v", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return invalid("the body has more than one value")
	}
	return nil
}

// ofGoods returns a handler that calls handle with the goods that the path names.
func ofGoods(handle func(http.ResponseWriter, *http.Request, int64) error) func(http.ResponseWriter, *http.Request) error {
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
		return name, decode(r, &struct{}{})
	}
	return "", invalid("X-User must have 1 to 64 printable characters")
}

// printable reports whether text has 1 to most printable ASCII characters.
func printable(text string, most int) bool {
	strange := strings.ContainsFunc(text, func(c rune) bool { return c < ' ' || c > '~' })
	return text != "" && len(text) <= most && !strange
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

// write runs statements, which must have a key, until their outcome is known or ctx ends. If a statement failed, write
// returns both an error and the answer.
func (s *service) write(ctx context.Context, o db.Options, statements ...db.Statement) (db.Answer, error) {
	answer, err := s.db.Insist(ctx, o, statements...)
	return answer, cmp.Or(err, failed(answer))
}

// read runs one query at the position that the client wants to see.
func (s *service) read(r *http.Request, level, text string, args ...any) (db.Answer, error) {
	o := db.Options{Level: level, MinSeq: r.Header.Get("X-Min-Seq"), Cluster: r.Header.Get("X-Cluster-Id")}
	answer, err := s.db.Query(r.Context(), o, db.SQL(text, args...))
	return answer, cmp.Or(err, failed(answer))
}

// row returns the only row of a query, or 404 and the answer without the row.
func (s *service) row(r *http.Request, level, what, text string, args ...any) (found db.Answer, row []any, err error) {
	if found, err = s.read(r, level, text, args...); err != nil {
		return found, nil, err
	}
	if len(found.Results[0].Values) == 0 {
		return found, nil, unknown(what)
	}
	return found, found.Results[0].Values[0], nil
}

// failed returns the error of the first statement that has one.
func failed(a db.Answer) error {
	for _, result := range a.Results {
		if result.Error != "" {
			return errors.New(result.Error)
		}
	}
	return nil
}

// integer returns a number of a row.
func integer(value any) int64 {
	n, _ := value.(json.Number).Int64() // The column has only integers.
	return n
}

// pause waits for d. It reports false if ctx ends first.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

func (s *service) ready(w http.ResponseWriter, r *http.Request) error {
	found, err := s.read(r, "", "SELECT count(*) FROM sale_goods WHERE goods_id = 0")
	if err != nil {
		return &problem{status: http.StatusServiceUnavailable, Message: err.Error()}
	}
	return reply(w, http.StatusOK, found, struct{}{})
}
