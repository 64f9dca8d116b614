package orchestratorapi

import (
	"cmp"
	"context"
	"log/slog"
	"math"
	"net/http"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"rideshare/internal/dbaas"
	"rideshare/internal/httpapi"
	"rideshare/internal/settings"
	"rideshare/internal/tracing"
	"rideshare/orchestrator/admission"
	"rideshare/orchestrator/console"
	"rideshare/orchestrator/invariants"
)

const (
	// maxSQLBody is the body limit of the SQL form, whose clients load data in bulk.
	maxSQLBody  = 64 << 20
	requestPath = "/db/request"
	// retainPending is how long an accepted operation that persdb does not know
	// is reported as pending: as long as persdb keeps operations by default.
	retainPending = time.Hour
)

// Dispatcher is what this package needs from dispatch. *dispatch.Dispatcher
// implements it.
type Dispatcher interface {
	Read(ctx context.Context, r dbaas.Read) (dbaas.ReadResult, error)
	Write(ctx context.Context, op dbaas.Operation) (dbaas.OperationResult, error)
	Enqueue(ctx context.Context, op dbaas.Operation) (ended bool, err error)
	// SawSeq records that a client learned of a write at seq other than from the result of Write.
	SawSeq(seq dbaas.Seq)
	// Cluster returns the cluster id of the database, or zero if it is not known yet.
	Cluster() dbaas.ClusterID
	// CheckCluster returns CodeGone if the database is another cluster. It may ask persdb, until deadline.
	CheckCluster(ctx context.Context, id dbaas.ClusterID, deadline time.Time) error
}

// Store is what this package needs from persdb. *commitlog.Store and persdb's client implement it.
type Store interface {
	// Lookup returns CodeNotFound for an operation that is unknown, not applied yet or too old.
	Lookup(ctx context.Context, id dbaas.OpID) (dbaas.OperationResult, error)
	// Backup returns the application's tables at one position. An unknown table is CodeInvalid.
	Backup(ctx context.Context, form dbaas.BackupForm) (*dbaas.Backup, error)
	// FileSQL returns the SQL text of a database file that a client sent. A damaged file is CodeInvalid.
	FileSQL(ctx context.Context, file []byte) ([]byte, error)
}

// Check is one condition for the orchestrator to be ready.
type Check struct {
	Name string // what the answer reports as missing when Probe fails
	// Probe returns nil if the condition holds.
	Probe func(ctx context.Context) error
}

// Config is what New needs. Log, Dispatcher, Store, Cluster, Clear and Present are required.
type Config struct {
	Log        *slog.Logger
	Dispatcher Dispatcher
	Store      Store
	Cluster    Cluster
	// Clear empties the application's tables: the statements of POST /api/v1/db/clear. Present is a query that fails if a
	// table of the application is missing.
	Clear   []dbaas.Statement
	Present string
	// Areas has the numbers and names of the application's areas, as CSV with headings, for the console.
	Areas string
	// About is the answer of /api/v1/settings, except for the other parts, which Parts returns if it is set.
	About console.About
	Parts func(ctx context.Context) []settings.Part
	// Checks are the conditions of /readyz besides a master and a slave.
	Checks []Check
	// Credentials guard the routes as roles.go says; nil leaves all open.
	Credentials *httpapi.Credentials
	// Budget bounds the memory that all requests hold together; see httpapi.Config.
	Budget *httpapi.Budget
	// MaxStatements is how many statements a request of the SQL form may have; zero means sqlbody.MaxStatements.
	MaxStatements int
	// CallTimeout is the timeout of a request that sets none: 5 s. MaxTimeout is the longest timeout that a client may
	// set: 50 s. It is well under the server's write timeout, so that the answer can still be sent.
	CallTimeout, MaxTimeout time.Duration
	// LoadTime is the time limit of a load: 30 s.
	LoadTime time.Duration
	// Version is the product's version, for X-Rqlite-Version. AllowOrigin is the value of Access-Control-Allow-Origin; the
	// header is not sent if it is empty.
	Version, AllowOrigin string
	// OnRequest is called for every request to the database routes, OnRead for
	// every read whose body is valid. Both are for scaling.
	OnRequest, OnRead func()
	// Observe is as in httpapi.Config.
	Observe func(route, method string, status int, took time.Duration, trace string)
	// Metrics serves /metrics, Events /api/v1/events, and Changes /api/v1/changes. The result of Decisions is rendered
	// as JSON at /api/v1/scaling/decisions. A route whose field is nil does not exist.
	Metrics, Events, Changes http.Handler
	Decisions                func(ctx context.Context) any
	// Scaling holds the limits of scaling, behind /api/v1/scaling; if it is nil, the routes do not exist.
	Scaling Scaling
	// Invariants is the check behind /api/v1/check; if it is nil, the route does not exist. Its
	// only error is CodeConflict.
	Invariants func(ctx context.Context) (invariants.Report, error)
	// Live is the stream behind /api/v1/live, whose State New sets; if it is nil, the route does not exist.
	Live *console.Live
	// Cache is the read cache behind Dispatcher.Read; nil if there is none.
	Cache Cache
	// Admission protects the database routes from overload; nil admits everything.
	Admission *admission.Gate
	// Now is the clock, time.Now by default.
	Now func() time.Time
}

// API serves the routes. It is safe for concurrent use.
type API struct {
	cfg      Config
	http     *httpapi.API
	inFlight keysInFlight
	pending  pendingOps
	queued   *queuedOps
	tables   tables
	engine   engineVersion
	users    *httpapi.Users
	started  time.Time
	// behindGuard has the routes that guarded registered.
	behindGuard map[string]bool
}

// New returns the API.
func New(cfg Config) *API {
	cfg.CallTimeout = cmp.Or(cfg.CallTimeout, 5*time.Second)
	cfg.LoadTime = cmp.Or(cfg.LoadTime, 30*time.Second)
	cfg.MaxTimeout = cmp.Or(cfg.MaxTimeout, 50*time.Second)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	nothing := func() {}
	if cfg.OnRequest == nil {
		cfg.OnRequest = nothing
	}
	if cfg.OnRead == nil {
		cfg.OnRead = nothing
	}
	a := &API{
		cfg:    cfg,
		http:   httpapi.New(httpapi.Config{Log: cfg.Log, Part: tracing.Orchestrator, Observe: cfg.Observe, Budget: cfg.Budget}),
		tables: tables{query: cfg.Present}, behindGuard: map[string]bool{},
		users: httpapi.NewUsers(cfg.Credentials),
	}
	a.inFlight.running = map[dbaas.OpID]dbaas.Fingerprint{}
	a.pending.ops = map[dbaas.OpID]pendingOp{}
	a.started = cfg.Now()
	a.queued = newQueuedOps(a.started)
	a.routes()
	return a
}

// ServeHTTP answers one request.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if id := a.cfg.Dispatcher.Cluster(); !id.IsZero() {
		w.Header().Set(httpapi.HeaderCluster, id.String())
	}
	a.AddHeaders(w.Header(), r.URL.Path)
	a.http.ServeHTTP(w, r)
}

func (a *API) routes() {
	course, counted := httpapi.EmptyErrorBodies(), httpapi.OnRequest(a.cfg.OnRequest)
	large := httpapi.MaxBody(maxSQLBody)

	a.guarded(http.MethodPost, "/api/v1/db/read", a.structuredRead, course, counted)
	a.guarded(http.MethodPost, "/api/v1/db/write", a.structuredWrite, course, counted)
	a.guarded(http.MethodPost, "/api/v1/db/clear", a.clear, course, counted)
	a.guarded(http.MethodGet, "/api/v1/db/writes/:id", a.writeStatus, counted)
	a.guarded(http.MethodPost, "/api/v1/crash/master", a.crash(a.cfg.Cluster.CrashMaster), course)
	a.guarded(http.MethodPost, "/api/v1/crash/slave", a.crash(a.cfg.Cluster.CrashSlave), course)
	a.guarded(http.MethodPost, "/api/v1/master", a.handOver)
	a.http.Handle(http.MethodGet, "/api/v1/worker/list", a.workers, course)

	a.guarded(http.MethodGet, "/db/query", a.query, large, counted)
	a.guarded(http.MethodPost, "/db/query", a.query)
	a.guarded(http.MethodPost, "/db/execute", a.execute, large, counted)
	a.guarded(http.MethodPost, requestPath, a.request, large, counted)

	a.guarded(http.MethodGet, "/db/backup", a.backup)
	a.guarded(http.MethodPost, "/db/load", a.load, httpapi.MaxBody(math.MaxInt64)) // load has its own limit, see tooMuch

	a.guarded(http.MethodGet, "/nodes", a.nodes)
	a.guarded(http.MethodGet, "/status", a.status)

	a.guarded(http.MethodGet, "/api/v1/cluster", a.clusterStatus)
	a.http.HandleProbes(a.readyFor, a.cfg.Metrics)
	if a.cfg.Decisions != nil {
		a.guarded(http.MethodGet, "/api/v1/scaling/decisions", a.decisions)
	}
	if a.cfg.Events != nil {
		a.guarded(http.MethodGet, "/api/v1/events", echo.WrapHandler(a.cfg.Events))
	}
	if a.cfg.Changes != nil {
		a.guarded(http.MethodGet, "/api/v1/changes", echo.WrapHandler(a.cfg.Changes))
	}
	a.scalingRoutes()
	a.checkRoutes()
	a.cacheRoutes()
	a.admissionRoutes()
	a.consoleRoutes()
	a.documentRoutes()
	a.checkAccess()
	a.answerOptions()
}

var errOtherRequest = dbaas.Errorf(dbaas.CodeMismatch, "this Idempotency-Key belongs to another request")

// keysInFlight tracks the operations with an Idempotency-Key that run in this process.
type keysInFlight struct {
	mu      sync.Mutex // guards running
	running map[dbaas.OpID]dbaas.Fingerprint
}

// begin returns CodeConflict while the same operation runs, and CodeMismatch while
// another operation runs under the same key.
func (k *keysInFlight) begin(op *dbaas.Operation) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	other, running := k.running[op.ID]
	switch {
	case !running:
		k.running[op.ID] = op.Fingerprint
		return nil
	case other != op.Fingerprint:
		return errOtherRequest
	default:
		return &dbaas.Error{Code: dbaas.CodeConflict, Reason: dbaas.ReasonRunning, Message: "the request with this Idempotency-Key is still running"}
	}
}

func (k *keysInFlight) end(id dbaas.OpID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.running, id)
}
