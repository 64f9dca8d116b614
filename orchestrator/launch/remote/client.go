package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/httpapi"
	"rideshare/internal/wait"
	"rideshare/orchestrator/launch"
)

const (
	// callTimeout bounds a call in addition to its context: a paused launcher must not block the control loop for ever.
	// A start on a busy engine takes seconds.
	callTimeout = 30 * time.Second
	// listTimeout bounds List, which every pass of the control loop waits for.
	listTimeout = 5 * time.Second
	// answerTime is how long an answer may take beyond the requested wait.
	answerTime = 10 * time.Second
	// maxAnswerBytes bounds what is read of an answer: thousands of workers.
	maxAnswerBytes = 4 << 20
)

// Config is what a Launcher needs. URL is required.
type Config struct {
	// URL is where the launcher listens, http://host:port or unix:///path.
	URL string
	// Token is the bearer token that the launcher requires, "" for none.
	Token string
	Log   *slog.Logger
}

// Launcher implements launch.Launcher by calling another process. It is safe for concurrent use.
type Launcher struct {
	base      string
	token     string
	log       *slog.Logger
	http      *http.Client
	transport *http.Transport
	events    chan struct{}
	end       context.CancelFunc
	polling   sync.WaitGroup
}

var _ launch.Launcher = (*Launcher)(nil)

// New returns a Launcher that polls for events in the background until Close. The other process need not be up yet; an
// error means a bad URL.
func New(c Config) (*Launcher, error) {
	base, transport, err := httpapi.Reach(c.URL)
	if err != nil {
		return nil, fmt.Errorf("launcher's address: %w", err)
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	l := &Launcher{
		base: base, token: c.Token, log: c.Log, transport: transport,
		http: &http.Client{Transport: transport}, events: make(chan struct{}, 1),
	}
	ctx, end := context.WithCancel(context.Background())
	l.end = end
	l.polling.Go(func() { l.poll(ctx) })
	return l, nil
}

// Close stops polling for events. Workers keep running.
func (l *Launcher) Close(context.Context) error {
	l.end()
	l.polling.Wait()
	l.transport.CloseIdleConnections()
	return nil
}

// Start implements launch.Launcher. An error other than ErrUnavailable comes from the launcher itself: no worker runs
// for this start, for the given reason.
func (l *Launcher) Start(ctx context.Context, startID string) (launch.Instance, error) {
	var i launch.Instance
	err := l.call(ctx, callTimeout, PathStart, Start{StartID: startID}, &i)
	if err != nil {
		return launch.Instance{}, fmt.Errorf("start worker: %w", err)
	}
	return i, nil
}

// Kill implements launch.Launcher. ErrUnavailable: the worker may or may not be dead.
func (l *Launcher) Kill(ctx context.Context, id dbaas.WorkerID) error {
	if err := l.call(ctx, callTimeout, PathKill, Target{Worker: id}, nil); err != nil {
		return fmt.Errorf("kill worker %s: %w", id, err)
	}
	return nil
}

// Stop implements launch.Launcher. ErrUnavailable: the worker may still finish. A grace above MaxGrace is reduced to
// MaxGrace.
func (l *Launcher) Stop(ctx context.Context, id dbaas.WorkerID, grace time.Duration) error {
	grace = min(grace, MaxGrace)
	body := Stop{Worker: id, GraceMillis: grace.Milliseconds()}
	if err := l.call(ctx, grace+answerTime, PathStop, body, nil); err != nil {
		return fmt.Errorf("stop worker %s: %w", id, err)
	}
	return nil
}

// Remove implements launch.Launcher.
func (l *Launcher) Remove(ctx context.Context, id dbaas.WorkerID) error {
	if err := l.call(ctx, callTimeout, PathRemove, Target{Worker: id}, nil); err != nil {
		return fmt.Errorf("remove worker %s: %w", id, err)
	}
	return nil
}

// List implements launch.Launcher.
func (l *Launcher) List(ctx context.Context) ([]launch.Instance, error) {
	var list List
	if err := l.call(ctx, listTimeout, PathList, nil, &list); err != nil {
		return nil, fmt.Errorf("list workers: %w", err)
	}
	return list.Workers, nil
}

// Events implements launch.Launcher.
func (l *Launcher) Events() <-chan struct{} { return l.events }

// call sends in and reads the answer into out; either may be nil. If the launcher itself does not answer, the error is
// ErrUnavailable.
func (l *Launcher) call(ctx context.Context, timeout time.Duration, path string, in, out any) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	method, body := http.MethodGet, []byte(nil)
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			return fmt.Errorf("encode request: %w", err)
		}
		method = http.MethodPost
	}
	req, err := http.NewRequestWithContext(ctx, method, l.base+path, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("make request: %w", err)
	}
	if l.token != "" {
		req.Header.Set("Authorization", "Bearer "+l.token)
	}
	resp, err := l.http.Do(req)
	if err != nil {
		return unavailable(err)
	}
	defer func() { _ = resp.Body.Close() }() // read only: nothing to lose.
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswerBytes))
	if err != nil {
		return unavailable(err)
	}
	if resp.StatusCode != http.StatusOK {
		return refused(httpapi.ErrorFromAnswer(resp.StatusCode, resp.Header, answer))
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(answer, out); err != nil {
		return unavailable(fmt.Errorf("read answer: %w", err))
	}
	return nil
}

// refused translates the launcher's own errors.
func refused(err *dbaas.Error) error {
	switch err.Code { //nolint:exhaustive // every other code is an answer that is final.
	case dbaas.CodeNotFound:
		return fmt.Errorf("%w: %w", launch.ErrNoWorker, err)
	case dbaas.CodeUnavailable, dbaas.CodeTimeout, dbaas.CodeUnknown:
		return unavailable(err)
	default:
		return err
	}
}

func unavailable(cause error) error {
	return fmt.Errorf("%w: %w", launch.ErrUnavailable, cause)
}

const (
	// firstPause and lastPause bound how long polling pauses after an error; the pause doubles between them.
	firstPause = 50 * time.Millisecond
	lastPause  = time.Second
)

// poll requests events until ctx ends. The launcher counts events, so an event between two requests answers the second
// one immediately, and none is lost.
func (l *Launcher) poll(ctx context.Context) {
	seen, failed, rest := "", 0, firstPause
	for ctx.Err() == nil {
		at, err := l.next(ctx, seen)
		if err != nil {
			failed++
			if failed == 1 && ctx.Err() == nil {
				l.log.WarnContext(ctx, "launcher lost", "error", err)
			}
			wait.For(ctx, rest)
			rest = min(2*rest, lastPause)
			continue
		}
		if failed > 0 {
			l.log.InfoContext(ctx, "launcher found again", "count", failed)
		}
		if at != seen || failed > 0 { // events may have been missed while the connection was lost
			l.notify()
		}
		seen, failed, rest = at, 0, firstPause
	}
}

func (l *Launcher) next(ctx context.Context, seen string) (string, error) {
	var e Event
	err := l.call(ctx, PollWait+answerTime, PathEvents+"?"+ParamAfter+"="+seen, nil, &e)
	if err == nil && e.At == "" {
		err = errors.New("the answer is no event")
	}
	return e.At, err
}

func (l *Launcher) notify() {
	select {
	case l.events <- struct{}{}:
	default: // a token is there already
	}
}
