package events

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/httpapi"
)

const (
	// keepAlive is how often a silent stream gets a comment, so that proxies with
	// the usual time-out of 60 s do not cut it.
	keepAlive = 20 * time.Second
	// writeLimit is how long a client may take to accept what is sent: one that does not
	// read is let go, and may resume later.
	writeLimit = 10 * time.Second
	// maxStreams bounds the open streams, each of which holds a connection and a goroutine.
	maxStreams = 256
	// noNumber is no event's number, and has every event after it.
	noNumber = ^uint64(0)
)

// ServeHTTP streams events: those after Last-Event-ID if the client names one,
// else those from now on. The id of an event is LIFE-NUMBER, where LIFE is this process's.
//
// A client that cannot get every event after the one it names, since this is another life or they are forgotten, gets an
// event "reset" first and then all kept ones: what it knows from before is no longer
// sure. More than 256 streams at once are refused with 503, and an id of neither form, LIFE-NUMBER or NUMBER, with 400.
func (l *Log) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	last, err := l.parse(r.Header.Get("Last-Event-ID"))
	if err != nil {
		httpapi.WriteError(w, r, false, err)
		return
	}
	select {
	case l.slots <- struct{}{}:
		defer func() { <-l.slots }()
	default:
		httpapi.WriteError(w, r, false, dbaas.Errorf(dbaas.CodeUnavailable, "%d streams of events are open, and no more are allowed: close one, or try again later", maxStreams))
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	s := stream{log: l, w: w, control: http.NewResponseController(w), last: last}
	s.run(r.Context())
}

// parse returns the number after which a client wants events: the newest for one that names none.
func (l *Log) parse(id string) (uint64, error) {
	if id == "" {
		return l.Last(), nil
	}
	life, text, found := strings.Cut(id, "-")
	if !found {
		text = id
	}
	n, err := strconv.ParseUint(text, 10, 64)
	switch {
	case err != nil, found && life == "":
		return 0, dbaas.Errorf(dbaas.CodeInvalid, "Last-Event-ID is not the id of an event: leave it out, or send one as it came")
	case !found || life != l.life:
		return noNumber, nil
	}
	return n, nil
}

// stream is one client that watches.
type stream struct {
	log     *Log
	w       http.ResponseWriter
	control *http.ResponseController
	last    uint64 // the number of the last event sent
}

// run sends events until the client or the log is gone.
func (s *stream) run(ctx context.Context) {
	timer := time.NewTicker(keepAlive)
	defer timer.Stop()
	text := ""
	for !s.log.isClosed() {
		events, gap, more := s.log.After(s.last)
		if gap {
			s.last = 0
			text += fmt.Sprintf("id: %s-0\nevent: reset\ndata: {}\n\n", s.log.life)
		}
		if !s.send(text) {
			return
		}
		for _, e := range events {
			if s.last = e.ID; !s.send(fmt.Sprintf("id: %s-%d\nevent: %s\ndata: %s\n\n", s.log.life, e.ID, e.Type, e.Data)) {
				return
			}
		}
		if s.control.Flush() != nil {
			return
		}
		text = ""
		select {
		case <-ctx.Done():
			return
		case <-more:
		case <-timer.C:
			text = ": still here\n\n"
		}
	}
}

// send writes text within the limit. It reports false when the client is gone or does not read.
func (s *stream) send(text string) bool {
	if s.control.SetWriteDeadline(time.Now().Add(writeLimit)) != nil {
		return false
	}
	_, err := s.w.Write([]byte(text))
	return err == nil
}
