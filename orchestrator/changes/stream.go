package changes

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/httpapi"
	"rideshare/internal/rowlog"
)

// stream is the stream to one consumer.
type stream struct {
	feed    *Feed
	request request
	out     *httpapi.Stream
	cluster dbaas.ClusterID
	id      string        // the cluster as text
	at      dbaas.Seq     // the stream has handled all commits up to this position
	life    uint64        // life of the window that the stream has joined
	page    []dbaas.Entry // read from the log and not sent yet
	next    *rowlog.Event // instead of the page, if the next commit is large
	sent    time.Time     // when the last event was sent
	buf     []byte        // events that are not yet handed to out
}

// enough is how many bytes of events are collected before they are handed to the response.
const enough = 16 << 10

// open returns the stream for a request, with its first page read. If the stream cannot go on from the position, the
// error is a *goneError whose page.First is the first commit that can be sent.
func (f *Feed) open(ctx context.Context, q request) (*stream, error) {
	s, err := f.begin(ctx, q)
	if gone, ok := errors.AsType[*goneError](err); ok {
		if gone.page, err = f.readable(ctx, gone.page); err == nil {
			err = gone
		}
	}
	return s, err
}

// begin is like open, but does not look for the first commit that can be sent.
func (f *Feed) begin(ctx context.Context, q request) (*stream, error) {
	s := &stream{feed: f, request: q, cluster: q.cluster, at: q.after, sent: time.Now()}
	if q.now {
		head, err := f.head(ctx)
		if err != nil {
			return nil, err
		}
		s.cluster, s.at = head.Cluster, head.Seq
	}
	if err := s.read(ctx); err != nil {
		return nil, err
	}
	if len(s.page) > 0 { // else a consumer that resumes here would be cut off again and again
		if _, err := rowlog.NewEvent(&s.page[0]); err != nil {
			return nil, s.unreadable(ctx, err)
		}
	}
	return s, nil
}

// read reads a page of the log after the stream's position, unless another stream is sending the next commit. Once it has
// read up to the head, the stream joins the window.
func (s *stream) read(ctx context.Context) error {
	if s.id != "" {
		if s.next = s.feed.large.find(s.cluster, s.at+1); s.next != nil {
			return nil
		}
	}
	page, event, err := s.feed.read(ctx, s.at)
	switch code := dbaas.CodeOf(err); {
	case code == dbaas.CodeDamaged:
		return s.unreadable(ctx, dbaas.Errorf(code, "commit %d is damaged on persdb's disk", s.at+1))
	case err != nil && (code != dbaas.CodeGone || page.Head.Cluster.IsZero()):
		return err
	case !s.cluster.IsZero() && page.Head.Cluster != s.cluster:
		return &goneError{"the position is of another cluster", page}
	case err != nil && s.at > page.Head.Seq:
		return &goneError{"the position is after the newest commit", page}
	case err != nil:
		return &goneError{"the log no longer has the commits after the position", page}
	}
	if s.page = page.Entries; s.id == "" {
		s.cluster, s.id = page.Head.Cluster, page.Head.Cluster.String()
	}
	end := s.at
	if n := len(page.Entries); n > 0 {
		end = page.Entries[n-1].Seq
	}
	if end == page.Head.Seq {
		s.life = s.feed.window.join(s.cluster, end)
	}
	if event != nil {
		s.next, s.page = event, nil
	}
	return nil
}

// unreadable returns the *goneError for a next commit that can never be sent, or the error of asking persdb for its
// head. reason says why the commit cannot be sent.
func (s *stream) unreadable(ctx context.Context, reason error) error {
	head, err := s.feed.head(ctx)
	if err != nil {
		return err
	}
	message := "the next commit cannot be read"
	if e, ok := errors.AsType[*dbaas.Error](reason); ok {
		message = e.Message
	}
	return &goneError{message, dbaas.Page{Head: head, First: s.at + 2}}
}

// run sends events until the stream ends, and returns why.
func (s *stream) run(ctx context.Context) error {
	for {
		if err := s.sendPage(ctx); err != nil {
			return err
		}
		events, behind, more := s.feed.window.after(s.life, s.at)
		var err error
		switch {
		case behind:
			err = s.readOn(ctx)
		case len(events) > 0:
			err = s.sendAll(ctx, events)
		default:
			err = s.idle(ctx, more, quiet)
		}
		if err != nil {
			return err
		}
	}
}

// sendPage sends the commits of the page that was read. It frees each commit before it renders the next.
func (s *stream) sendPage(ctx context.Context) error {
	if event := s.next; event != nil {
		s.next = nil
		if err := s.send(ctx, event); err != nil {
			return err
		}
	}
	for len(s.page) > 0 {
		event, err := rowlog.NewEvent(&s.page[0])
		if err != nil {
			return s.cut(ctx, s.unreadable(ctx, err))
		}
		s.page[0] = dbaas.Entry{}
		s.page = s.page[1:]
		if err = s.send(ctx, event); err != nil {
			return err
		}
	}
	s.page = nil
	return s.flush(ctx)
}

func (s *stream) sendAll(ctx context.Context, events []*rowlog.Event) error {
	for _, e := range events {
		if err := s.send(ctx, e); err != nil {
			return err
		}
	}
	return s.flush(ctx)
}

// readOn reads the next page. While persdb does not answer, the stream stays open and tries again.
func (s *stream) readOn(ctx context.Context) error {
	err := s.read(ctx)
	switch _, gone := errors.AsType[*goneError](err); {
	case gone:
		return s.cut(ctx, err)
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return s.idle(ctx, nil, retryPause)
	}
	return nil
}

// retryPause is the wait after a failed read of the log.
const retryPause = time.Second

// cut sends the position and returns the reason. A consumer that resumes at that position gets the reason as a refusal.
func (s *stream) cut(ctx context.Context, reason error) error {
	return errors.Join(reason, s.position(ctx), s.flush(ctx))
}

// idle waits until more is closed, but at most for limit. If it was not closed and no event was sent for quiet, idle
// sends the position.
func (s *stream) idle(ctx context.Context, more <-chan struct{}, limit time.Duration) error {
	timer := time.NewTimer(min(limit, quiet-time.Since(s.sent)))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-more:
		return nil
	case <-timer.C:
	}
	return errors.Join(s.remind(ctx), s.flush(ctx))
}

// send sends a commit, unless it has nothing that the consumer wants.
func (s *stream) send(ctx context.Context, e *rowlog.Event) error {
	s.at = e.Seq
	if !e.Matches(s.request.tables) {
		return s.remind(ctx)
	}
	s.feed.events.Add(1)
	s.buf = s.begin("commit", e.Seq)
	for piece := range e.Pieces(s.request.tables) {
		var err error
		if len(piece) < enough {
			if s.buf = append(s.buf, piece...); len(s.buf) >= enough {
				err = s.handOver(ctx)
			}
		} else if err = s.handOver(ctx); err == nil {
			err = s.out.Send(ctx, piece) // not copied
		}
		if err != nil {
			return err
		}
	}
	return s.finish(ctx, s.buf)
}

// remind sends the position if no event was sent for quiet.
func (s *stream) remind(ctx context.Context) error {
	if time.Since(s.sent) < quiet {
		return nil
	}
	return s.position(ctx)
}

// position sends the position as an event. Without it, a consumer whose tables rarely change would have to resume from
// an old position.
func (s *stream) position(ctx context.Context) error {
	return s.finish(ctx, fmt.Appendf(s.begin("position", s.at), `{"cluster":"%s","seq":%d}`, s.cluster, s.at))
}

// begin returns the buffer with the lines before the data of an event appended. In NDJSON there are none.
func (s *stream) begin(kind string, seq dbaas.Seq) []byte {
	if s.request.lines {
		return s.buf
	}
	b := append(append(s.buf, "id: "...), s.id...)
	b = strconv.AppendUint(append(b, ':'), uint64(seq), 10)
	return append(append(append(b, "\nevent: "...), kind...), "\ndata: "...)
}

// finish completes the event at the end of b, which becomes the buffer. Once the buffer has enough bytes, finish hands
// it to the response.
func (s *stream) finish(ctx context.Context, b []byte) error {
	b = append(b, '\n')
	if !s.request.lines {
		b = append(b, '\n')
	}
	s.buf, s.sent = b, time.Now()
	if len(b) < enough {
		return nil
	}
	return s.handOver(ctx)
}

func (s *stream) handOver(ctx context.Context) error {
	b := s.buf
	s.buf = b[:0]
	return s.out.Send(ctx, b)
}

// flush sends what is not sent yet.
func (s *stream) flush(ctx context.Context) error {
	if err := s.handOver(ctx); err != nil {
		return err
	}
	return s.out.Flush()
}
