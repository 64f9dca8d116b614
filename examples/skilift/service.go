package main

import (
	"context"
	_ "embed"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"rideshare/examples/internal/db"
)

//go:embed schema.sql
var schema string

// service is one instance. It keeps nothing that the database does not have.
type service struct {
	config

	ctx       context.Context // ends with the process
	db        *db.Client
	mux       *http.ServeMux
	stats     stats
	dashboard *dashboard
	batchers  map[bool]*batcher // true: of rides whose request waits for the broker only, not for the commit
}

// call is a request with the values of its path.
type call struct {
	*http.Request

	values map[string]int
}

type handler func(w http.ResponseWriter, c call) error

const ridePath = "/skiers/{resort}/seasons/{season}/days/{day}/skiers/{skier}"

func newService(ctx context.Context, c config, client *db.Client) *service {
	s := &service{config: c, ctx: ctx, db: client, mux: http.NewServeMux(), stats: stats{seen: map[string]times{}}, dashboard: &dashboard{db: client}}
	s.batchers = map[bool]*batcher{false: s.newBatcher(false), true: s.newBatcher(true)}
	get := map[string]handler{
		"/{$}":                     s.page,
		"/live":                    s.live,
		"/livez":                   func(w http.ResponseWriter, _ call) error { return send(w, http.StatusOK, object{}) },
		"/readyz":                  s.readyz,
		"/statistics":              s.statistics,
		"/writes/{id}":             s.write,
		"/skiers/{skier}/vertical": s.totalVertical,
	}
	for path, q := range queries {
		get[path] = s.ask(q)
	}
	post := map[string]handler{ridePath: s.postRide, "/resorts/{resort}/seasons": s.postSeason}
	for path := range get {
		s.mux.HandleFunc(path, s.serve(get[path], post[path]))
	}
	s.mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		sendError(w, failed(http.StatusNotFound, "no such path"))
	})
	return s
}

var (
	knownStart = regexp.MustCompile(`^/(skiers|resorts|statistics)(/|$)`)
	oneDay     = regexp.MustCompile(`/day(/|$)`)
	lastSkier  = regexp.MustCompile(`/skier/([^/]*)$`)
)

// ServeHTTP translates the paths of the public clients of this API. Some of them send a first part that names an
// application server, day for days, or skier for skiers before the last id.
func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := r.URL.Path
	if _, rest, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/"); !knownStart.MatchString(path) && knownStart.MatchString("/"+rest) {
		path = "/" + rest
	}
	r.URL.Path = lastSkier.ReplaceAllString(oneDay.ReplaceAllString(path, "/days$1"), "/skiers/$1")
	s.mux.ServeHTTP(w, r)
}

// serve answers the requests to one path. post may be nil.
func (s *service) serve(get, post handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		handle := map[string]handler{http.MethodGet: get, http.MethodPost: post}[r.Method]
		if handle == nil {
			w.Header().Set("Allow", map[bool]string{true: "GET", false: "GET, POST"}[post == nil])
			sendError(w, failed(http.StatusMethodNotAllowed, "this path does not have this method"))
			return
		}
		defer s.stats.add(r.Pattern, r.Method, time.Now())
		c := call{r, map[string]int{}}
		var err error
		for name := range s.ranges {
			if text := r.PathValue(name); text != "" && err == nil {
				c.values[name], err = s.ranges.read(name, text)
			}
		}
		if err == nil {
			r.Body = http.MaxBytesReader(w, r.Body, 64<<10)
			err = handle(w, c)
		}
		if err != nil {
			sendError(w, err)
		}
	}
}

// prepare creates the missing tables; several instances may do that concurrently. It tries once a second until the
// database answers.
func (s *service) prepare(stderr io.Writer) error {
	create := db.SQL(schema, object{"low": s.ranges["resort"][0], "high": s.ranges["resort"][1]})
	_, err := result(s.db.Execute(s.ctx, db.Options{}, create))
	if err != nil {
		_, _ = fmt.Fprintf(stderr, "skilift: no database at %s, start it with 'rideshare up': %v\n", s.database, err) // for people
	}
	for limit := time.Now().Add(s.patience); err != nil && time.Now().Before(limit) && pause(s.ctx, time.Second); {
		_, err = result(s.db.Execute(s.ctx, db.Options{}, create))
	}
	return err
}

// readyz reports whether the database answers and has the tables.
func (s *service) readyz(w http.ResponseWriter, c call) error {
	_, err := result(s.db.Query(c.Context(), db.Options{Level: "none"}, db.SQL("SELECT max(resort_id) FROM ski_resorts")))
	if err != nil {
		return failed(http.StatusServiceUnavailable, "the database does not answer")
	}
	return send(w, http.StatusOK, object{})
}

// stats collects how long the requests of this instance took.
type stats struct {
	mu   sync.Mutex       // guards seen
	seen map[string]times // by path and method
}

type times struct{ count, total, max time.Duration }

func (s *stats) add(path, method string, start time.Time) {
	took := time.Since(start)
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.seen[path+" "+method]
	s.seen[path+" "+method] = times{t.count + 1, t.total + took, max(t.max, took)}
}

// statistics answers the mean and the longest time of each endpoint, in milliseconds.
func (s *service) statistics(w http.ResponseWriter, _ call) error {
	s.stats.mu.Lock()
	seen := maps.Clone(s.stats.seen)
	s.stats.mu.Unlock()
	list := []object{}
	for _, name := range slices.Sorted(maps.Keys(seen)) {
		path, method, _ := strings.Cut(name, " ")
		t := seen[name]
		list = append(list, object{"URL": path, "operation": method, "mean": (t.total / t.count).Milliseconds(), "max": t.max.Milliseconds()})
	}
	return send(w, http.StatusOK, object{"endpointStats": list})
}
