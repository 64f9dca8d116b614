package orchestratorapi

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"rideshare/internal/dbaas"
	"rideshare/internal/httpapi"
)

// statusTime bounds what GET /status asks of others.
const statusTime = time.Second

// fields is an object of GET /status.
type fields map[string]any

// status answers GET /status with those fields of rqlite's answer that rqlite's clients read. With key=a.b the answer is
// only that member, or {} without one.
func (a *API) status(c echo.Context) error {
	var found any = a.statusFields(c)
	if key := c.QueryParam("key"); key != "" {
		for name := range strings.SplitSeq(key, ".") {
			object, _ := found.(fields)
			member, ok := object[name]
			if !ok {
				return httpapi.Empty(c, http.StatusOK)
			}
			found = member
		}
	}
	return httpapi.JSON(c, http.StatusOK, found)
}

func (a *API) statusFields(c echo.Context) fields {
	ctx, cancel := context.WithTimeout(c.Request().Context(), statusTime)
	defer cancel()
	me, now := a.self(c), a.cfg.Now()
	host, _ := os.Hostname() // "" if it has none
	return fields{
		"build": fields{"version": a.cfg.Version, "compiler": runtime.Compiler},
		"http":  fields{"queue": fields{"_default": fields{"sequence_number": a.queued.confirmed(ctx, a.cfg.Store)}}},
		"node":  fields{"start_time": a.started, "current_time": now, "uptime": now.Sub(a.started).String()},
		"os":    fields{"pid": os.Getpid(), "hostname": host, "page_size": os.Getpagesize()},
		"runtime": fields{
			"GOARCH": runtime.GOARCH, "GOOS": runtime.GOOS, "GOMAXPROCS": runtime.GOMAXPROCS(0), "num_cpu": runtime.NumCPU(),
			"num_goroutine": runtime.NumGoroutine(), "version": runtime.Version(),
		},
		"store": fields{
			"ready": a.ready(ctx, true) == nil, "node_id": me.ID,
			"leader":  fields{"node_id": me.ID, "addr": me.Addr},
			"nodes":   []fields{{"id": me.ID, "addr": me.Addr, "suffrage": "voter"}},
			"sqlite3": fields{"version": a.engine.ask(ctx, a.cfg.Dispatcher.Read)},
		},
	}
}

// engineVersion is the version of SQLite that the workers run. This process does not link the engine.
type engineVersion struct {
	mu    sync.Mutex // guards known
	known string
}

// ask returns the version, or "" while no slave has told it. The read does not count for scaling.
func (e *engineVersion) ask(ctx context.Context, read func(context.Context, dbaas.Read) (dbaas.ReadResult, error)) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.known != "" {
		return e.known
	}
	deadline, _ := ctx.Deadline()
	result, err := read(ctx, dbaas.Read{Deadline: deadline, Format: dbaas.FormatObjects, Statements: []dbaas.Statement{{SQL: "SELECT sqlite_version() AS v"}}})
	var rows []struct{ V string }
	if err == nil && json.Unmarshal(result.Body, &rows) == nil && len(rows) == 1 {
		e.known = rows[0].V
	}
	return e.known
}

// maxQueued is how many queued writes are remembered until they are confirmed.
const maxQueued = 64

// queuedWrites knows up to which number queued writes are done.
type queuedWrites struct {
	mu      sync.Mutex // guards the fields below
	done    int64
	pending []queuedWrite // the newest, with growing numbers
}

type queuedWrite struct {
	number int64
	id     dbaas.OpID
}

func (q *queuedWrites) add(number int64, id dbaas.OpID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.pending) == maxQueued {
		q.pending = append(q.pending[:0], q.pending[1:]...)
	}
	q.pending = append(q.pending, queuedWrite{number, id})
}

func (q *queuedWrites) confirm(number int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.done = max(q.done, number)
}

// confirmed returns the highest number whose write persdb has, done or failed. The writes of this process run in the order
// of their numbers, so all lower ones have ended too.
func (q *queuedWrites) confirmed(ctx context.Context, store Store) int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := len(q.pending) - 1; i >= 0 && q.pending[i].number > q.done; i-- {
		if _, err := store.Lookup(ctx, q.pending[i].id); err == nil {
			q.done = q.pending[i].number
			q.pending = append(q.pending[:0], q.pending[i+1:]...)
			break
		} else if dbaas.CodeOf(err) != dbaas.CodeNotFound {
			break // persdb is away
		}
	}
	return q.done
}
