package httpapi

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"time"

	"golang.org/x/net/netutil"

	"rideshare/internal/logkey"
)

// MaxHeaderBytes limits the request line and headers. A username may be as long as a body, and each of its bytes may
// take three in a path: 3 MiB and some room.
const MaxHeaderBytes = 4 << 20

// Default timeouts and limits of a Server.
const (
	// readHeaderTimeout ends connections that send their headers too slowly.
	readHeaderTimeout = 5 * time.Second
	// DefaultReadTimeout bounds a whole request; for a body over 1 MiB it bounds each MiB.
	DefaultReadTimeout = 15 * time.Second
	// DefaultWriteTimeout is well above the longest call timeout (5 s by default). It bounds a short answer, and each MiB
	// of a longer one.
	DefaultWriteTimeout = 60 * time.Second
	// idleTimeout is longer than the idle timeout of the system's own clients, so that they close idle connections
	// first and never send a request into a closing one.
	idleTimeout = 60 * time.Second
	// defaultMaxConns limits open connections, and with them memory.
	defaultMaxConns = 8192
	// connMemory is the memory, in bytes, for a connection with a slow request at the gateway, which has the most: its
	// head (up to shortHead), buffers (48 KiB), and the stacks of its goroutines.
	connMemory = 128 << 10
	// drainTime is how long requests in flight may continue at a stop, answerTime how long their answers may take
	// after that. A process must end within 10 s, including the work that its requests started.
	drainTime  = 3 * time.Second
	answerTime = time.Second
)

// ServerConfig is the settings of a Server. Addr, Handler and Log are required.
type ServerConfig struct {
	Addr string // host:port, port 0 picks a free one; or unix:///path
	// Listener, if set, is used instead of Addr. It may come from a parent process.
	Listener net.Listener
	Handler  http.Handler
	Log      *slog.Logger
	// ReadTimeout and WriteTimeout: zero means the default, negative none. A streaming handler sets its own with
	// http.ResponseController. Both start again with each MiB received of a long body, and WriteTimeout with each MiB sent
	// of a long answer.
	ReadTimeout  time.Duration
	WriteTimeout time.Duration
	// AllowedHosts are the host names, besides localhost, under which clients may call the server. If empty, a
	// loopback address allows no others, any other address allows all.
	AllowedHosts []string
	// Exposed, if set, is a warning to log when the server listens beyond this machine: it explains the risk and the
	// remedy.
	Exposed string
	// TLS, if set, is for a TCP listener: plain HTTP is refused then. A Unix socket never has TLS, because only this
	// machine can reach it.
	TLS *tls.Config
	// MaxConns limits open connections; zero means 8192, or one for each 128 KiB of GOMEMLIMIT if these are fewer.
	MaxConns int
	// AddHeaders, if set, adds the headers that every answer at a path must have. It is called for the answers with
	// which the server itself refuses a request; Handler sets these headers in its own answers.
	AddHeaders func(h http.Header, path string)
}

// Server is one listener with its HTTP server.
type Server struct {
	cfg      ServerConfig
	http     *http.Server
	listener net.Listener
	hosts    hostRule   // set before the first request
	done     chan error // the result of Serve, once

	endRequests func() // cancels the contexts of all requests, with errStopping as cause
}

var errStopping = fmt.Errorf("the server stops: %w", context.Canceled)

// CountedStatus returns the status that metrics and traces count for an answer. If the client left before an answer with a 5xx,
// it is 499, a status that is never sent; otherwise it is the status of the answer. ctx is the context of the request.
func CountedStatus(ctx context.Context, status int) int {
	if status >= http.StatusInternalServerError && clientLeft(ctx) {
		return 499
	}
	return status
}

// clientLeft reports whether the context of a Server's request has ended because the client left, not because the server
// stops.
func clientLeft(ctx context.Context) bool {
	return context.Cause(ctx) == context.Canceled //nolint:errorlint // errStopping wraps it.
}

// NewServer returns a Server that is not listening yet.
func NewServer(cfg ServerConfig) *Server {
	cfg.MaxConns = cmp.Or(cfg.MaxConns, int(max(1, min(defaultMaxConns, memoryLimit()/connMemory))))
	cfg.ReadTimeout = cmp.Or(cfg.ReadTimeout, DefaultReadTimeout)
	cfg.WriteTimeout = cmp.Or(cfg.WriteTimeout, DefaultWriteTimeout)
	handler := cfg.Handler
	if cfg.ReadTimeout > 0 {
		handler = withProgress(handler, cfg.ReadTimeout, cfg.WriteTimeout)
	}
	requests, end := context.WithCancelCause(context.Background())
	s := &Server{cfg: cfg, done: make(chan error, 1), endRequests: func() { end(errStopping) }}
	s.http = &http.Server{
		BaseContext:       func(net.Listener) context.Context { return requests },
		Handler:           boundHead(s.sameSite(handler)),
		ConnContext:       withHeadConn,
		ConnState:         headState,
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       cfg.ReadTimeout,
		WriteTimeout:      cfg.WriteTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    MaxHeaderBytes,
		// net/http's own log lines are about clients' broken connections.
		ErrorLog: slog.NewLogLogger(cfg.Log.Handler(), slog.LevelDebug),
	}
	return s
}

// memoryLimit returns GOMEMLIMIT in bytes, or without it a number beyond any memory: the soft limit that a process then
// has is no bound.
func memoryLimit() int64 {
	if os.Getenv("GOMEMLIMIT") == "" {
		return math.MaxInt64
	}
	return debug.SetMemoryLimit(-1)
}

// Open listens and serves in the background until Close. nil means that the server accepts connections; a busy or
// malformed address is an error.
func (s *Server) Open(ctx context.Context) error {
	listener := s.cfg.Listener
	if listener == nil {
		var err error
		if listener, err = Listen(ctx, s.cfg.Addr); err != nil {
			return err
		}
	}
	s.listener = listener
	s.hosts = hostRule{loopback: onLoopback(listener.Addr()), allowed: s.cfg.AllowedHosts}
	if _, tcp := listener.Addr().(*net.TCPAddr); tcp && !s.hosts.loopback && s.cfg.Exposed != "" {
		s.cfg.Log.WarnContext(ctx, "listening beyond this machine without credentials", logkey.Addr, s.Addr(), logkey.Reason, s.cfg.Exposed)
	}
	limited := s.limited(listener)
	go func() {
		err := s.http.Serve(limited)
		if errors.Is(err, http.ErrServerClosed) {
			err = nil
		}
		s.done <- err
		close(s.done)
	}()
	return nil
}

// limited returns listener with its limits, and with TLS if it is configured.
func (s *Server) limited(listener net.Listener) net.Listener {
	var secure *tls.Config
	if s.secure() {
		secure = s.cfg.TLS
	}
	return newHeadListener(netutil.LimitListener(listener, s.cfg.MaxConns), secure, s.cfg.Log)
}

func (s *Server) secure() bool {
	_, tcp := s.listener.Addr().(*net.TCPAddr)
	return tcp && s.cfg.TLS != nil
}

// Addr returns the address of the listener, with the actual port. The server must be open.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// URL returns the base URL of the server, without a trailing slash. It replaces the address for all interfaces by the
// loopback address.
func (s *Server) URL() string {
	scheme := "http://"
	if s.secure() {
		scheme = "https://"
	}
	host, port, err := net.SplitHostPort(s.Addr())
	if ip := net.ParseIP(host); err == nil && ip != nil && ip.IsUnspecified() {
		return scheme + net.JoinHostPort("127.0.0.1", port)
	}
	return scheme + s.Addr()
}

// Done returns a channel with the result of serving: nil after Close, an error if the listener failed. It yields one
// value and is then closed.
func (s *Server) Done() <-chan error { return s.done }

// OnShutdown calls fn in a new goroutine when Close begins, to end streams that would otherwise delay Close.
func (s *Server) OnShutdown(fn func()) { s.http.RegisterOnShutdown(fn) }

// Draining returns the context to close servers with. Requests in flight continue for drainTime. Then their contexts
// end, so that handlers answer with what is known; answerTime later connections are cut. Call done after the last
// Close.
func Draining(ctx context.Context, servers ...*Server) (closing context.Context, done context.CancelFunc) {
	closing, cancel := context.WithTimeout(ctx, drainTime+answerTime)
	timer := time.AfterFunc(drainTime, func() {
		for _, s := range servers {
			s.endRequests()
		}
	})
	return closing, func() {
		timer.Stop()
		cancel()
	}
}

// Close stops accepting connections, waits for requests in flight until ctx ends, and then cuts off the rest. It only
// logs that: a client that does not read its answer is not a failure of the server. Closing a server that was never
// opened does nothing.
func (s *Server) Close(ctx context.Context) error {
	defer s.endRequests()
	if s.listener == nil {
		return nil
	}
	err := s.http.Shutdown(ctx)
	if err != nil && ctx.Err() != nil {
		s.cfg.Log.WarnContext(ctx, "requests cut off at shutdown", logkey.Addr, s.Addr(), logkey.Error, err.Error())
		s.endRequests()
		err = s.http.Close()
	}
	if err != nil {
		return fmt.Errorf("shut down %s: %w", s.Addr(), err)
	}
	return nil
}
