// Package feedtest has a consumer of the change feed that needs no network, so that it works in a synctest bubble.
package feedtest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"
)

// Event is what a consumer received: a server-sent event, or a line of NDJSON, which has only Data.
type Event struct{ ID, Type, Data string }

// Stream is an answer that is read while it is written. Only one goroutine may use it, except for Leave.
type Stream struct {
	Status int
	Header http.Header
	// Body is the answer if Status is not 200.
	Body string

	conn   io.Closer
	lines  *bufio.Reader
	leave  context.CancelFunc
	done   chan struct{}
	ndjson bool
}

// writer is the server's side. Nothing is buffered: a write returns once the consumer has taken it.
type writer struct {
	net.Conn

	header http.Header
	begun  chan int
	once   sync.Once
	refuse strings.Builder
	status int
}

func (w *writer) Header() http.Header { return w.header }

func (w *writer) WriteHeader(status int) {
	w.once.Do(func() {
		if w.status = status; status == http.StatusOK {
			w.begun <- status
		}
	})
}

func (w *writer) Write(b []byte) (int, error) {
	if w.WriteHeader(http.StatusOK); w.status != http.StatusOK {
		return w.refuse.Write(b)
	}
	return w.Conn.Write(b)
}

func (w *writer) SetWriteDeadline(t time.Time) error { return w.Conn.SetWriteDeadline(t) }

func (w *writer) FlushError() error { return nil }

// Open sends a request with headers, pairs of name and value, and returns the answer once it has begun.
func Open(ctx context.Context, h http.Handler, target string, headers ...string) *Stream {
	ctx, cancel := context.WithCancel(ctx)
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, target, http.NoBody)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	client, server := net.Pipe()
	w := &writer{Conn: server, header: http.Header{}, begun: make(chan int, 1)}
	s := &Stream{conn: client, leave: cancel, done: make(chan struct{}), lines: bufio.NewReader(client), ndjson: r.Header.Get("Accept") != ""}
	go func() {
		defer close(s.done)
		defer func() {
			_ = server.Close()
			if p := recover(); p != nil && p != http.ErrAbortHandler { //nolint:errorlint // as net/http compares it
				panic(p)
			}
		}()
		h.ServeHTTP(w, r)
	}()
	select {
	case s.Status = <-w.begun:
		s.Header = w.header
	case <-s.done:
		s.Status, s.Header, s.Body = w.status, w.header, w.refuse.String()
	}
	return s
}

// Get is Open over the network. A status other than 200 is not an error: see Status.
func Get(ctx context.Context, client *http.Client, url string, headers ...string) (*Stream, error) {
	ctx, cancel := context.WithCancel(ctx)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		cancel()
		return nil, err
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := client.Do(r) //nolint:bodyclose // Stream.Leave closes it
	if err != nil {
		cancel()
		return nil, err
	}
	s := &Stream{Status: resp.StatusCode, Header: resp.Header, conn: resp.Body, leave: cancel, done: make(chan struct{}), lines: bufio.NewReader(resp.Body), ndjson: r.Header.Get("Accept") != ""}
	close(s.done)
	if s.Status == http.StatusOK {
		return s, nil
	}
	body, err := io.ReadAll(resp.Body)
	s.Body = string(body)
	return s, err
}

// Next waits for the next event. The end of the stream is an error, also in the middle of an event.
func (s *Stream) Next() (e Event, err error) {
	for {
		line, err := s.lines.ReadString('\n')
		if err != nil {
			return e, err
		}
		line = strings.TrimSuffix(line, "\n")
		name, value, _ := strings.Cut(line, ": ")
		switch {
		case s.ndjson:
			return Event{Data: line}, nil
		case line == "":
			return e, nil
		case name == "id":
			e.ID = value
		case name == "event":
			e.Type = value
		case name == "data":
			e.Data = value
		default:
			return e, fmt.Errorf("unexpected line %q", line)
		}
	}
}

// Leave disconnects the consumer. It may be called by any goroutine.
func (s *Stream) Leave() {
	s.leave()
	_ = s.conn.Close()
}

// Close disconnects the consumer and waits until the server has noticed.
func (s *Stream) Close() {
	s.Leave()
	<-s.done
}

// Gone waits until the server has ended the stream. It does not disconnect the consumer, and the rest of the stream is
// not read.
func (s *Stream) Gone() { <-s.done }

// Commit is the data of an event.
type Commit struct {
	Cluster string
	Seq     uint64
	Changes []json.RawMessage
}

// Commit returns the event's data.
func (e Event) Commit() (c Commit, err error) {
	err = json.Unmarshal([]byte(e.Data), &c)
	return c, err
}
