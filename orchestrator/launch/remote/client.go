package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/httpapi"
	"rideshare/internal/logkey"
	"rideshare/internal/rpc"
	"rideshare/internal/tlsfiles"
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
	// TLS is what the client trusts and presents; nil means the system's CAs.
	TLS *tlsfiles.Files
}

// Launcher implements launch.Launcher by calling another process. It is safe for concurrent use.
type Launcher struct {
	launcher  rpc.Caller
	log       *slog.Logger
	transport *http.Transport
	events    wait.Token
	end       context.CancelFunc
	polling   sync.WaitGroup
	// listTimeout is the constant, except in tests.
	listTimeout time.Duration
}

var _ launch.Launcher = (*Launcher)(nil)

// New returns a Launcher that polls for events in the background until Close. The other process need not be up yet; an
// error means a bad URL.
func New(c Config) (*Launcher, error) {
	base, transport, err := httpapi.Reach(c.URL)
	if err != nil {
		return nil, fmt.Errorf("launcher's address: %w", err)
	}
	c.TLS.Trust(transport)
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	l := &Launcher{
		launcher: rpc.Caller{Peer: "launcher", Base: base, HTTP: &http.Client{Transport: transport}, MaxAnswer: maxAnswerBytes},
		log:      c.Log, transport: transport, events: wait.NewToken(), listTimeout: listTimeout,
	}
	if c.Token != "" {
		l.launcher.Authorization = "Bearer " + c.Token
	}
	ctx, end := context.WithCancel(context.Background())
	l.end = end
	l.polling.Go(func() { l.poll(ctx) })
	return l, nil
}

// Caller returns the caller of the other process.
func (l *Launcher) Caller() *rpc.Caller { return &l.launcher }

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
	return call[launch.Instance](ctx, l, "start worker", post(PathStart, callTimeout), Start{StartID: startID})
}

// Kill implements launch.Launcher. ErrUnavailable: the worker may or may not be dead.
func (l *Launcher) Kill(ctx context.Context, id dbaas.WorkerID) error {
	_, err := call[rpc.None](ctx, l, "kill worker "+string(id), post(PathKill, callTimeout), Target{Worker: id})
	return err
}

// Stop implements launch.Launcher. ErrUnavailable: the worker may still finish. A grace above MaxGrace is reduced to
// MaxGrace.
func (l *Launcher) Stop(ctx context.Context, id dbaas.WorkerID, grace time.Duration) error {
	grace = min(grace, MaxGrace)
	body := Stop{Worker: id, GraceMillis: grace.Milliseconds()}
	_, err := call[rpc.None](ctx, l, "stop worker "+string(id), post(PathStop, grace+answerTime), body)
	return err
}

// Remove implements launch.Launcher.
func (l *Launcher) Remove(ctx context.Context, id dbaas.WorkerID) error {
	_, err := call[rpc.None](ctx, l, "remove worker "+string(id), post(PathRemove, callTimeout), Target{Worker: id})
	return err
}

// List implements launch.Launcher.
func (l *Launcher) List(ctx context.Context) ([]launch.Instance, error) {
	list, err := call[List](ctx, l, "list workers", get(PathList, l.listTimeout), nil)
	return list.Workers, err
}

// Events implements launch.Launcher.
func (l *Launcher) Events() <-chan struct{} { return l.events }

func post(path string, timeout time.Duration) rpc.Request {
	return rpc.Request{Method: http.MethodPost, Path: path, Timeout: timeout}
}

func get(path string, timeout time.Duration) rpc.Request {
	return rpc.Request{Method: http.MethodGet, Path: path, Timeout: timeout}
}

// call makes one call. Its errors are those of launch.Launcher: ErrNoWorker or a final refusal from the launcher itself,
// and ErrUnavailable if the call may or may not have taken effect.
func call[Out any](ctx context.Context, l *Launcher, what string, r rpc.Request, in any) (Out, error) {
	out, err := rpc.Call[Out](ctx, &l.launcher, r, in)
	switch dbaas.CodeOf(err) { //nolint:exhaustive // every other code is a refusal.
	case dbaas.CodeOK:
		return out, nil
	case dbaas.CodeNotFound:
		err = fmt.Errorf("%w: %w", launch.ErrNoWorker, err)
	case dbaas.CodeUnavailable, dbaas.CodeTimeout, dbaas.CodeUnknown, dbaas.CodeInternal:
		err = fmt.Errorf("%w: %w", launch.ErrUnavailable, err)
	}
	return out, fmt.Errorf("%s: %w", what, err)
}

const (
	// firstPause and lastPause bound how long polling pauses after an error; the pause doubles between them.
	firstPause = 50 * time.Millisecond
	lastPause  = time.Second
)

// poll requests events until ctx ends. The launcher counts events, so an event between two requests answers the second
// one immediately, and none is lost.
func (l *Launcher) poll(ctx context.Context) {
	seen, lost := "", wait.Streak{}
	backoff := wait.Backoff{First: firstPause, Cap: lastPause}
	for ctx.Err() == nil {
		at, err := l.next(ctx, seen)
		if err != nil {
			if lost.Fail() && ctx.Err() == nil {
				l.log.WarnContext(ctx, "launcher lost", logkey.Error, err)
			}
			backoff.Wait(ctx)
			continue
		}
		failures := lost.End()
		if failures > 0 {
			l.log.InfoContext(ctx, "launcher found again", logkey.Count, failures)
		}
		if at != seen || failures > 0 { // events may have been missed while the connection was lost
			l.events.Give()
		}
		seen = at
		backoff.Reset()
	}
}

func (l *Launcher) next(ctx context.Context, seen string) (string, error) {
	e, err := call[Event](ctx, l, "wait for events", get(PathEvents+"?"+ParamAfter+"="+seen, PollWait+answerTime), nil)
	if err == nil && e.At == "" {
		err = errors.New("the answer is no event")
	}
	return e.At, err
}
