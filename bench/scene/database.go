package scene

import (
	"context"
	"fmt"
	"net/http"
	"os/exec"
	"time"

	"rideshare/bench/api"
	"rideshare/internal/wait"
)

// patience bounds how long a kill, and the check at the end, are retried.
const patience = time.Minute

// call sends a request to the orchestrator.
func (r *Run) call(ctx context.Context, path string) api.Reply {
	return r.Protection.Client.Send(ctx, http.MethodPost, r.Database+path, nil)
}

// Rows reads rows from the database, at level strong. It retries until ctx ends. T is an array or a slice of the columns.
func Rows[T any](ctx context.Context, r *Run, text string, values ...any) []T {
	statement := append([]any{text}, values...)
	reply, err := api.Insist(ctx, func(ctx context.Context) api.Reply {
		return r.Protection.Client.Send(ctx, http.MethodPost, r.Database+"/db/query?level=strong", []any{statement})
	}, http.StatusOK)
	if err != nil {
		r.Fail(ctx, fmt.Errorf("%.40s: %w", text, err))
		return nil
	}
	answer, err := api.Decode[struct {
		Results []struct {
			Values []T
			Error  string
		}
	}](reply)
	if err == nil && (len(answer.Results) != 1 || answer.Results[0].Error != "") {
		err = fmt.Errorf("got %v", reply)
	}
	if err != nil {
		r.Fail(ctx, fmt.Errorf("%.40s: %w", text, err))
		return nil
	}
	return answer.Results[0].Values
}

// kill kills a part: master and slave through the orchestrator, the broker by the commands of the settings.
func (r *Run) kill(ctx context.Context, load, what string, start time.Time) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	at := time.Since(start)
	if what == "broker" {
		if r.BrokerKill == "" {
			r.Note("The broker was left alone.")
			return
		}
		for _, command := range []string{r.BrokerKill, r.BrokerStart} {
			if out, err := exec.CommandContext(ctx, "sh", "-c", command).CombinedOutput(); err != nil { //nolint:gosec // The user gives the command.
				r.Wrong("%s: %v: %.200s", command, err, out)
			}
		}
	} else if err := r.crash(ctx, what); err != nil {
		r.Wrong("kill the %s: %v", what, err)
		return
	}
	r.Change(func(res *Result) { res.Events = append(res.Events, Event{load, at, what}) })
}

// crash kills the master or a slave as soon as there is one.
func (r *Run) crash(ctx context.Context, what string) error {
	for {
		reply := r.call(ctx, "/api/v1/crash/"+what)
		if reply.Failure(http.StatusOK) == "" {
			return nil
		}
		if !wait.For(ctx, 200*time.Millisecond) {
			return fmt.Errorf("got %v", reply)
		}
	}
}

// checkDatabase asks the database to check itself. After a kill it may need a moment until all workers are there again.
func (r *Run) checkDatabase(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		reply := r.call(ctx, "/api/v1/check")
		report, err := api.Decode[struct {
			OK bool `json:"ok"`
		}](reply)
		if reply.Failure(http.StatusOK) == "" && err == nil && report.OK {
			return nil
		}
		if !wait.For(ctx, time.Second) {
			return fmt.Errorf("check of the database: %d %s", reply.Status, reply.Body)
		}
	}
}
