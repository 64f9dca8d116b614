package api

import (
	"crypto/rand"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"

	"rideshare/internal/httpapi"
	"rideshare/internal/instances"
	"rideshare/internal/tlsfiles"
)

// At returns a copy of c for one base URL, or for several separated by commas: the copy then uses the first address that answers.
// The errors are those of instances.Parse. c.HTTP must have a *http.Transport.
//
// With several addresses, a request that was certainly not sent goes to the next address. A request with an Idempotency-Key that
// was sent but got no answer is repeated once at another address; unless that succeeds, the reply is the first attempt's error.
// Every request carries the largest position that any client made from c has seen (X-Min-Seq), so that it sees what these clients
// wrote.
func (c *Client) At(addresses string, tls *tlsfiles.Files) (*Client, error) {
	urls := strings.Split(addresses, ",")
	out := *c
	if len(urls) == 1 {
		parsed, err := instances.Parse(urls)
		if err == nil {
			out.Base = parsed[0].String()
		}
		return &out, err
	}
	pool, err := instances.New(instances.Config{URLs: urls, Transport: c.HTTP.Transport.(*http.Transport), TLS: tls})
	if err != nil {
		return nil, err
	}
	if c.seen == nil {
		c.seen = new(atomic.Uint64)
	}
	web := *c.HTTP
	web.Transport = pool
	out.HTTP, out.Base, out.seen = &web, pool.Base(), c.seen
	return &out, nil
}

// Key returns the header of a new idempotency key, or nil if the client has only one address. With a key, a write that got no
// answer is repeated at another address.
func (c *Client) Key() []string {
	if c.seen == nil {
		return nil
	}
	return []string{httpapi.HeaderIdempotencyKey, rand.Text()}
}

// lostElsewhere reports whether a request has no answer because its address is dead, while another address lives.
func lostElsewhere(err error) bool {
	e, ok := errors.AsType[*instances.Error](err)
	return ok && e.Elsewhere
}

// ask adds the largest position to the headers of a request.
func (c *Client) ask(h http.Header) {
	if c.seen == nil {
		return
	}
	if seq := c.seen.Load(); seq > 0 {
		h.Set(httpapi.HeaderMinSeq, strconv.FormatUint(seq, 10))
	}
}

// note remembers the position of an answer if it is the largest so far.
func (c *Client) note(h http.Header) {
	if c.seen == nil {
		return
	}
	seq, _ := strconv.ParseUint(h.Get(httpapi.HeaderSeq), 10, 64) // 0 if the answer has no position.
	for before := c.seen.Load(); seq > before && !c.seen.CompareAndSwap(before, seq); before = c.seen.Load() {
	}
}
