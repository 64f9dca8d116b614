// Package launchapi offers a launcher over HTTP to the orchestrators of one stack: the server side of launch/remote. It
// passes on only start ids, worker ids and graces, and nothing that defines what a worker is.
package launchapi

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/httpapi"
	"rideshare/internal/rpc"
	"rideshare/internal/settings"
	"rideshare/orchestrator/launch"
	"rideshare/orchestrator/launch/remote"
)

// maxBody is far above the longest valid body, in bytes.
const maxBody = 4 << 10

// Config is what a Service needs. Launcher and Log are required.
type Config struct {
	// Launcher does the work. The Service must be the only reader of its events.
	Launcher launch.Launcher
	Log      *slog.Logger
	// Token is the bearer token that callers must send, "" for none.
	Token string
	// Observe counts requests, and Metrics serves the page of all metrics.
	Observe func(route, method string, status int, took time.Duration, trace string)
	Metrics http.Handler
	// Settings are those of the launcher's process.
	Settings []settings.Setting
}

// Service is the API of one launcher. It is safe for concurrent use.
type Service struct {
	launcher launch.Launcher
	token    [sha256.Size]byte // hash of the header's whole value, so that its length does not depend on the token's
	open     bool              // no token is required
	events   *events
	routes   *httpapi.API
}

// New returns a Service that passes events on until Close.
func New(c Config) *Service {
	s := &Service{
		launcher: c.Launcher, token: sha256.Sum256([]byte(c.Token)), open: c.Token == "",
		events: newEvents(c.Launcher.Events()),
		routes: httpapi.New(httpapi.Config{Log: c.Log, MaxBody: maxBody, Observe: c.Observe}),
	}
	s.handle(http.MethodPost, remote.PathStart, rpc.WithBody(maxBody, s.start))
	s.handle(http.MethodPost, remote.PathKill, target(s.launcher.Kill))
	s.handle(http.MethodPost, remote.PathStop, rpc.WithBody(maxBody, s.stop))
	s.handle(http.MethodPost, remote.PathRemove, target(s.launcher.Remove))
	s.handle(http.MethodGet, remote.PathList, rpc.NoBody(s.list))
	s.handle(http.MethodGet, remote.PathEvents, s.event)
	s.handle(http.MethodGet, settings.Path, settings.Handler(c.Settings))
	s.routes.HandleHealth(s.ready, c.Metrics)
	return s
}

// Handler returns the API.
func (s *Service) Handler() http.Handler { return s.routes }

// Shutdown answers the callers that wait for events, which would otherwise hold up the server's shutdown.
func (s *Service) Shutdown() { s.events.close() }

// handle registers a route for callers with the token.
func (s *Service) handle(method, path string, h rpc.Handler) {
	s.routes.HandleFunc(method, path, func(w http.ResponseWriter, r *http.Request) error {
		if !s.authorized(r.Header.Get("Authorization")) {
			w.Header().Set("WWW-Authenticate", `Bearer realm="rideshare launcher"`)
			return dbaas.Errorf(dbaas.CodeUnauthorized, "the launcher's token is missing or wrong")
		}
		return h(w, r)
	})
}

func (s *Service) authorized(header string) bool {
	if s.open {
		return true
	}
	scheme, token, _ := strings.Cut(header, " ")
	sum := sha256.Sum256([]byte(strings.TrimSpace(token)))
	return strings.EqualFold(scheme, "bearer") && subtle.ConstantTimeCompare(sum[:], s.token[:]) == 1
}

// ready reports whether the engine answers.
func (s *Service) ready(ctx context.Context) error {
	if _, err := s.launcher.List(ctx); err != nil {
		return dbaas.WrapError(dbaas.CodeUnavailable, "the engine does not answer", err)
	}
	return nil
}

func (s *Service) start(ctx context.Context, in remote.Start) (launch.Instance, error) {
	if err := checkName("start_id", in.StartID); err != nil {
		return launch.Instance{}, err
	}
	// A caller that gives up does not stop a start half way: the caller, or the next pass of its loop, finds the worker
	// in the list.
	i, err := s.launcher.Start(context.WithoutCancel(ctx), in.StartID)
	return i, coded(err)
}

// target returns the handler of an action on a worker.
func target(do func(context.Context, dbaas.WorkerID) error) rpc.Handler {
	return rpc.WithBody(maxBody, func(ctx context.Context, in remote.Target) (rpc.None, error) {
		if err := checkName("worker", string(in.Worker)); err != nil {
			return rpc.None{}, err
		}
		return rpc.None{}, coded(do(ctx, in.Worker))
	})
}

func (s *Service) stop(ctx context.Context, in remote.Stop) (rpc.None, error) {
	if err := checkName("worker", string(in.Worker)); err != nil {
		return rpc.None{}, err
	}
	if in.GraceMillis < 0 || in.GraceMillis > remote.MaxGrace.Milliseconds() {
		return rpc.None{}, dbaas.Errorf(dbaas.CodeInvalid, "grace_ms is not between 0 and %d", remote.MaxGrace.Milliseconds())
	}
	return rpc.None{}, coded(s.launcher.Stop(ctx, in.Worker, time.Duration(in.GraceMillis)*time.Millisecond))
}

func (s *Service) list(ctx context.Context) (remote.List, error) {
	workers, err := s.launcher.List(ctx)
	return remote.List{Workers: append([]launch.Instance{}, workers...)}, coded(err)
}

func (s *Service) event(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := context.WithTimeout(r.Context(), remote.PollWait)
	defer cancel()
	return rpc.Answer(w, remote.Event{At: s.events.wait(ctx, r.URL.Query().Get(remote.ParamAfter))})
}

// checkName rejects names that are empty, too long, or unfit for a log line.
func checkName(field, name string) error {
	bad := name == "" || len(name) > remote.MaxNameBytes
	for i := range len(name) {
		bad = bad || name[i] < 0x20 || name[i] > 0x7e
	}
	if bad {
		return dbaas.Errorf(dbaas.CodeInvalid, "%s is not 1 to %d printable characters", field, remote.MaxNameBytes)
	}
	return nil
}

// coded gives an error of the launcher a code, which the client converts back. It includes the error's text, for the
// orchestrator's log: only the orchestrator calls this API.
func coded(err error) error {
	if err == nil {
		return nil
	}
	code := dbaas.CodeConflict // final: a missing image, a worker that still runs
	switch {
	case errors.Is(err, launch.ErrNoWorker):
		code = dbaas.CodeNotFound
	case errors.Is(err, launch.ErrUnavailable):
		code = dbaas.CodeUnavailable
	}
	return dbaas.Errorf(code, "%v", err)
}
