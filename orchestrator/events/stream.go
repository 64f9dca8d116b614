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
	// keepAlive is how often a stream gets a comment, so that proxies with the usual timeout of 60 s do not close
	// a stream without events.
	keepAlive = 20 * time.Second
	// writeLimit is how long a client may take to accept what is sent. A client that does not
	// read is disconnected and may resume later.
	writeLimit = 10 * time.Second
	// maxStreams bounds the open streams, each of which holds a connection and a goroutine.
	maxStreams = 256
	// noNumber is a number that no event has, so that After reports a gap.
	noNumber = ^uint64(0)
)

// ServeHTTP streams events. It starts after Last-Event-ID if the client sends that header, else with the
// next event. The id of an event is LIFE-NUMBER, where LIFE identifies this process.
//
// If not all events after Last-Event-ID are available, because they are of another process or no longer kept, the
// client first gets an event "reset" and then all kept events: what it knew before may be wrong.
// A request is refused with 503 if 256 streams are open, and with 400 if the id is neither LIFE-NUMBER nor NUMBER.
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
	s := stream{log: l, out: httpapi.NewStream(w, "text/event-stream", writeLimit), last: last}
	if r.Method == http.MethodHead {
		return
	}
	s.run(r.Context())
}

// parse returns the number after which a client wants events: the newest number if id is empty, and noNumber if id
// is not of this process.
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

// stream is the stream to one client.
type stream struct {
	log  *Log
	out  *httpapi.Stream
	last uint64 // the number of the last event sent
}

// run sends events until the client is gone or the log is closed.
func (s *stream) run(ctx context.Context) {
	timer := time.NewTicker(keepAlive)
	defer timer.Stop()
	text := ""
	for {
		events, gap, more := s.log.After(s.last)
		if s.log.isClosed() { // checked after more was taken, so that no Close is missed
			return
		}
		if gap {
			s.last = 0
			text += fmt.Sprintf("id: %s-0\nevent: reset\ndata: {}\n\n", s.log.life)
		}
		if s.out.Send(ctx, []byte(text)) != nil {
			return
		}
		for _, e := range events {
			s.last = e.ID
			if s.out.Send(ctx, fmt.Appendf(nil, "id: %s-%d\nevent: %s\ndata: %s\n\n", s.log.life, e.ID, e.Type, e.Data)) != nil {
				return
			}
		}
		if s.out.Flush() != nil {
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
