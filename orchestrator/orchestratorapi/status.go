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

// statusTime bounds how long GET /status waits for other parts, such as persdb and the slaves.
const statusTime = time.Second

// fields is an object of GET /status.
type fields map[string]any

// status answers GET /status with those fields of rqlite's answer that rqlite's clients read. With
// key=a.b the answer is only that member, or {} if there is no such member.
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
	return answerState(c, found)
}

func (a *API) statusFields(c echo.Context) fields {
	ctx, cancel := context.WithTimeout(c.Request().Context(), statusTime)
	defer cancel()
	me, now := a.self(c), a.cfg.Now()
	host, _ := os.Hostname() // "" if it has none
	return fields{
		"build": fields{"version": a.cfg.Version, "compiler": runtime.Compiler},
		"http":  fields{"queue": fields{"_default": fields{"sequence_number": a.newestEnded(ctx)}}},
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

// engineVersion is the version of SQLite that the workers run. This process does not link the
// engine.
type engineVersion struct {
	mu    sync.Mutex // guards known
	known string
}

// ask returns the version, or "" while no slave has answered. The read does not count for scaling.
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
