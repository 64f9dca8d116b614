package e2e

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	// headTime is how long a request's head may take, bodyTime a whole request with a short body.
	headTime, bodyTime = 5 * time.Second, 15 * time.Second
	// floodCopies is how often each request of a flood is sent at the same time.
	floodCopies = 6
	// floodMemory is how much more memory, in MiB, a flood may take: bodies of 256 MiB have room, their buffers grow, and garbage waits. All
	// bodies that are sent at the same time have nearly 2 GiB, before their buffers grow.
	floodMemory = 1536
)

// place is a call with a body.
type place struct {
	name, base, method, path string
	limit                    int // of its body, in bytes
}

func (p place) head(framing string) string {
	return p.method + " " + p.path + " HTTP/1.1\r\nHost: localhost\r\n" + framing
}

// servicePlaces returns the calls with a body of gateway, users and rides.
func (s *system) servicePlaces() []place {
	return []place{
		{"GatewayUsers", s.Gateway, "PUT", "/api/v1/users", 1 << 20},
		{"GatewayRides", s.Gateway, "POST", "/api/v1/rides", 1 << 20},
		{"Users", s.Users, "PUT", "/api/v1/users", 1 << 20},
		{"Rides", s.Rides, "POST", "/api/v1/rides", 1 << 20},
	}
}

// orchestratorPlaces returns the calls with a body of the orchestrator.
func (s *system) orchestratorPlaces() []place {
	return []place{
		{"Write", s.Orchestrator, "POST", "/api/v1/db/write", 1 << 20},
		{"Read", s.Orchestrator, "POST", "/api/v1/db/read", 1 << 20},
		{"Execute", s.Orchestrator, "POST", "/db/execute", 64 << 20},
	}
}

// endless is the length of a body without an end.
const endless = -1

// block is what bodies consist of. It is no JSON.
var block = bytes.Repeat([]byte("x"), 64<<10)

// rawRequest is a request that no client library sends: a head, which may be incomplete, and the bytes after it.
type rawRequest struct {
	name, base, head string
	length           int  // of what follows, in bytes
	dribbles         bool // whether that comes byte by byte
	chunked          bool // whether it comes in chunks
}

// rawAnswer is how a rawRequest ended. Status 0 means that the connection was closed without an answer.
type rawAnswer struct {
	answer
	took time.Duration
}

// send sends the request and waits for its answer, or for the end of the connection.
func (r rawRequest) send() (rawAnswer, error) {
	began := time.Now()
	conn, err := net.Dial("tcp", strings.TrimPrefix(r.base, "http://"))
	if err != nil {
		return rawAnswer{}, err
	}
	var sending sync.WaitGroup
	defer sending.Wait()
	defer func() { _ = conn.Close() }()
	if err = conn.SetReadDeadline(began.Add(callLimit)); err != nil {
		return rawAnswer{}, err
	}
	if _, err = io.WriteString(conn, r.head); err != nil {
		return rawAnswer{}, err
	}
	sending.Go(func() { r.sendRest(conn) })
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	took := time.Since(began)
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) {
		return rawAnswer{took: took}, nil
	}
	if err != nil {
		return rawAnswer{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	return rawAnswer{answer{resp.StatusCode, resp.Header, string(text)}, took}, err
}

// sendRest sends the bytes after the head as long as the connection accepts them. If it does not, the request was refused, and the answer
// shows that.
func (r rawRequest) sendRest(conn io.Writer) {
	body := conn
	if r.chunked {
		body = httputil.NewChunkedWriter(conn)
	}
	for left := r.length; left != 0; {
		piece := block
		if r.dribbles {
			time.Sleep(headTime / 10) // this makes the request slow; it does not wait for anything
			piece = block[:1]
		}
		if left != endless {
			piece = piece[:min(left, len(piece))]
			left -= len(piece)
		}
		if _, err := body.Write(piece); err != nil {
			return
		}
	}
	if r.chunked && r.length > 0 {
		_, _ = io.WriteString(conn, "0\r\n\r\n")
	}
}

// flood returns requests with bodies around and over the limit of a place, by the status of their answers if there is room for the body.
func (p place) flood() map[int][]rawRequest {
	all := map[int][]rawRequest{}
	add := func(status int, name string, length int, chunked bool) {
		framing := "Content-Length: " + strconv.Itoa(length)
		if chunked {
			name, framing = name+"Chunked", "Transfer-Encoding: chunked"
		}
		all[status] = append(all[status], rawRequest{name: p.name + name, base: p.base, head: p.head(framing + "\r\n\r\n"), length: length, chunked: chunked})
	}
	for _, chunked := range []bool{false, true} {
		add(http.StatusBadRequest, "AtTheLimit", p.limit, chunked)
		add(http.StatusRequestEntityTooLarge, "OneByteOver", p.limit+1, chunked)
		add(http.StatusRequestEntityTooLarge, "100MiB", 100<<20, chunked)
	}
	add(http.StatusRequestEntityTooLarge, "Endless", endless, true)
	return all
}

// checkFlood sends the flood of each place: first each request alone, then copies of all at the same time, when there may also be no room
// for a request. During that time it calls others.
func checkFlood(t *testing.T, places []place, others func()) {
	t.Helper()
	for _, copies := range []int{1, floodCopies} {
		var crowd sync.WaitGroup
		for _, p := range places {
			for status, requests := range p.flood() {
				for _, r := range requests {
					for range copies {
						send := func() {
							a, err := r.send()
							noRoom := copies > 1 && a.Status == http.StatusServiceUnavailable && a.Header.Get("Retry-After") != ""
							if err = cmp.Or(err, a.check(status, anyBody)); err != nil && !noRoom {
								t.Errorf("%s, %d at a time, after %v: %v", r.name, copies, a.took, err)
							}
						}
						if copies == 1 {
							send()
							continue
						}
						crowd.Go(send)
					}
				}
			}
		}
		done := make(chan struct{})
		go func() {
			crowd.Wait()
			close(done)
		}()
		for running := true; running; {
			others()
			select {
			case <-done:
				running = false
			default:
			}
		}
	}
}

// slowRequest is a request that is never completed.
type slowRequest struct {
	rawRequest
	status int           // of the answer; 0 for none
	after  time.Duration // when it is over
	answer rawAnswer
	err    error
}

// slow returns requests of a place that stop, or send single bytes slowly, in the head or in the body.
func (p place) slow() []*slowRequest {
	all := []*slowRequest{
		{rawRequest: rawRequest{name: "StopsInTheHead", head: p.head("Accept: */*\r\n")}, after: headTime},
		{rawRequest: rawRequest{name: "DribblesTheHead", head: p.head("X-Slow: "), length: endless, dribbles: true}, after: headTime},
	}
	for framing, chunked := range map[string]bool{"Content-Length: 1000": false, "Transfer-Encoding: chunked": true} {
		r := rawRequest{name: "StopsInTheBody", head: p.head(framing + "\r\n\r\n"), chunked: chunked}
		all = append(all, &slowRequest{rawRequest: r, status: http.StatusRequestTimeout, after: bodyTime})
		r.name, r.length, r.dribbles = "DribblesTheBody", endless, true
		all = append(all, &slowRequest{rawRequest: r, status: http.StatusRequestTimeout, after: bodyTime})
	}
	for _, r := range all {
		r.name, r.base = fmt.Sprint(p.name, r.name, r.chunked), p.base
	}
	return all
}
