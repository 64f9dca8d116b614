package hosts_test

import (
	"context"
	"net/http"

	"rideshare/internal/dbaas"
	"rideshare/orchestrator/launch/inproc"
)

type workerID = dbaas.WorkerID

// idle is a worker that only lives.
type idle struct{ http.Handler }

func newIdle(inproc.Spec) (inproc.Worker, error) { return idle{http.NotFoundHandler()}, nil }

func (idle) Run(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func (idle) Kill()                   {}
func (i idle) Control() http.Handler { return i }
