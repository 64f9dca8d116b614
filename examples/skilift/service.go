package main

import (
	"context"
	_ "embed"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"rideshare/examples/internal/db"
	"rideshare/examples/internal/web"
)

//go:embed schema.sql
var schema string

// createTables returns the statement that creates what is missing in the database.
func createTables(v ranges) db.Statement {
	return db.SQL(schema, object{"low": v["resort"][0], "high": v["resort"][1]})
}

// service is one instance. It keeps nothing that the database does not have.
type service struct {
	config

	ctx       context.Context // ends with the process
	db        *db.Client
	routes    http.Handler
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
	s := &service{config: c, ctx: ctx, db: client, stats: stats{seen: map[string]times{}}, dashboard: &dashboard{db: client}}
	s.batchers = map[bool]*batcher{false: s.newBatcher(false), true: s.newBatcher(true)}
	routes := map[string]web.Handler{
		"POST " + ridePath:               s.handle(s.postRide),
		"POST /resorts/{resort}/seasons": s.handle(s.postSeason),
		"GET /skiers/{skier}/vertical":   s.handle(s.totalVertical),
		"GET /writes/{id}":               s.handle(s.write),
		"GET /statistics":                s.handle(s.statistics),
		"GET /{$}":                       s.handle(s.page),
		"GET /live":                      s.handle(s.live),
		"GET /readyz":                    s.handle(s.readyz),
	}
	for path, q := range queries {
		routes["GET "+path] = s.handle(s.ask(q))
	}
	s.routes = web.Routes(routes, sendError)
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
	s.routes.ServeHTTP(w, r)
}

// handle returns a handler that reads the values of the path, and notes how long the request took.
func (s *service) handle(answer handler) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		defer s.stats.add(r.Pattern, time.Now())
		c := call{r, map[string]int{}}
		for name := range s.ranges {
			text := r.PathValue(name)
			if text == "" {
				continue
			}
			value, err := s.ranges.read(name, text)
			if err != nil {
				return err
			}
			c.values[name] = value
		}
		return answer(w, c)
	}
}

// readyz reports whether the database answers and has the tables.
func (s *service) readyz(w http.ResponseWriter, c call) error {
	_, err := result(s.db.Query(c.Context(), db.Options{Level: "none"}, db.SQL("SELECT max(resort_id) FROM ski_resorts")))
	if err != nil {
		return failed(http.StatusServiceUnavailable, "the database does not answer")
	}
	return web.Answer(w, http.StatusOK, db.Answer{}, object{})
}

// stats collects how long the requests of this instance took.
type stats struct {
	mu   sync.Mutex       // guards seen
	seen map[string]times // by route
}

type times struct{ count, total, max time.Duration }

func (s *stats) add(route string, start time.Time) {
	took := time.Since(start)
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.seen[route]
	s.seen[route] = times{t.count + 1, t.total + took, max(t.max, took)}
}

// statistics answers the mean and the longest time of each endpoint, in milliseconds.
func (s *service) statistics(w http.ResponseWriter, _ call) error {
	s.stats.mu.Lock()
	seen := maps.Clone(s.stats.seen)
	s.stats.mu.Unlock()
	list := []object{}
	for _, route := range slices.Sorted(maps.Keys(seen)) {
		method, path, _ := strings.Cut(route, " ")
		t := seen[route]
		list = append(list, object{"URL": path, "operation": method, "mean": (t.total / t.count).Milliseconds(), "max": t.max.Milliseconds()})
	}
	return web.Answer(w, http.StatusOK, db.Answer{}, object{"endpointStats": list})
}
