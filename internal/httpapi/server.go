package httpapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"golang.org/x/net/netutil"

	"rideshare/internal/logkey"
)

// MaxHeaderBytes is the longest request line and headers. A username may be as
// long as a body, and in a path each byte of it may take three: 3 MiB and some room.
const MaxHeaderBytes = 4 << 20

// Timeouts of a Server that sets none.
const (
	// readHeaderTimeout ends connections that dribble their headers.
	readHeaderTimeout = 5 * time.Second
	// DefaultReadTimeout bounds a whole request, and of a body over 1 MiB each MiB.
	DefaultReadTimeout = 15 * time.Second
	// DefaultWriteTimeout is well over the longest call timeout (5 s by default).
	DefaultWriteTimeout = 60 * time.Second
	// idleTimeout is longer than that of our own clients, so that they close
	// idle connections first and never send into a closing one.
	idleTimeout = 60 * time.Second
	// defaultMaxConns bounds open connections, and with them memory.
	defaultMaxConns = 8192
	// drainTime is how long requests in hand go on at a stop, answerTime how long their answers may take afterwards. A
	// process ends within 10 s, with all that stands behind its requests.
	drainTime  = 3 * time.Second
	answerTime = time.Second
)

// ServerConfig is the settings of a Server. Addr, Handler and Log are required.
type ServerConfig struct {
	Addr string // host:port, port 0 picks a free one; or unix:///path
	// Listener is used instead of Addr if it is set, as one that a parent process handed over.
	Listener net.Listener
	Handler  http.Handler
	Log      *slog.Logger
	// ReadTimeout and WriteTimeout: zero means the default, negative none. A
	// handler that streams sets its own with http.ResponseController. Both begin
	// anew with each MiB of a long body that has come.
	ReadTimeout  time.Duration
	WriteTimeout time.Duration
	// AllowedHosts are the names, besides localhost, that requests may call the server by. None: on a loopback
	// address no other, elsewhere any.
	AllowedHosts []string
	// Exposed, if set, is logged as a warning when the server listens beyond this machine: why that is a risk, and the cure.
	Exposed string
	// MaxConns is how many connections may be open; zero means 8192.
	MaxConns int
}

// Server is one listener with its HTTP server.
type Server struct {
	cfg      ServerConfig
	http     *http.Server
	listener net.Listener
	hosts    hostRule   // set before the first request
	done     chan error // what Serve ended with, once

	endRequests context.CancelFunc // ends the contexts of all requests
}

// NewServer returns a Server that does not listen yet.
func NewServer(cfg ServerConfig) *Server {
	if cfg.MaxConns == 0 {
		cfg.MaxConns = defaultMaxConns
	}
	if cfg.ReadTimeout == 0 {
		cfg.ReadTimeout = DefaultReadTimeout
	}
	if cfg.WriteTimeout == 0 {
		cfg.WriteTimeout = DefaultWriteTimeout
	}
	handler := cfg.Handler
	if cfg.ReadTimeout > 0 {
		handler = withProgress(handler, cfg.ReadTimeout, cfg.WriteTimeout)
	}
	requests, end := context.WithCancel(context.Background())
	s := &Server{cfg: cfg, done: make(chan error, 1), endRequests: end}
	s.http = &http.Server{
		BaseContext:       func(net.Listener) context.Context { return requests },
		Handler:           boundHead(s.sameSite(handler)),
		ConnContext:       withHeadConn,
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       cfg.ReadTimeout,
		WriteTimeout:      cfg.WriteTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    MaxHeaderBytes,
		// net/http's own lines are about broken connections of clients.
		ErrorLog: slog.NewLogLogger(cfg.Log.Handler(), slog.LevelDebug),
	}
	return s
}

// Open listens and serves in the background until Close. nil means that
// connections are taken; a busy or malformed address is an error here.
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
	go func() {
		err := s.http.Serve(newHeadListener(netutil.LimitListener(listener, s.cfg.MaxConns)))
		if errors.Is(err, http.ErrServerClosed) {
			err = nil
		}
		s.done <- err
		close(s.done)
	}()
	return nil
}

// Addr returns where the server listens, with the real port. It must be open.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// URL returns the base URL of the server, without a slash at its end. An
// address for all interfaces becomes the loopback one.
func (s *Server) URL() string {
	host, port, err := net.SplitHostPort(s.Addr())
	if ip := net.ParseIP(host); err == nil && ip != nil && ip.IsUnspecified() {
		return "http://" + net.JoinHostPort("127.0.0.1", port)
	}
	return "http://" + s.Addr()
}

// Done returns what serving ended with: nil after Close, an error if the
// listener broke. It yields once and is closed then.
func (s *Server) Done() <-chan error { return s.done }

// OnShutdown calls fn in a goroutine of its own when Close begins, for streams
// that would otherwise hold it up.
func (s *Server) OnShutdown(fn func()) { s.http.RegisterOnShutdown(fn) }

// Draining returns the context to close servers with. The requests that they have in hand go on for drainTime; then their
// contexts end, so that the handlers answer what is known, and answerTime later connections are cut. Call done
// after the last Close.
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

// Close stops taking connections, waits for requests in hand until ctx ends, and then cuts off what is left, which is
// logged: a client that does not read its answer is no failure of the server. Closing a server that never opened does nothing.
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
