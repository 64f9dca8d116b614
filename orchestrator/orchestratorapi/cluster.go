package orchestratorapi

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"rideshare/internal/dbaas"
	"rideshare/internal/httpapi"
)

// Cluster is what this package needs from the control loop. It must be safe for
// concurrent use.
type Cluster interface {
	// CrashMaster kills the master's container and returns its pid once it is
	// confirmed dead. ok is false if there is no master.
	CrashMaster(ctx context.Context) (pid int, ok bool, err error)
	// CrashSlave kills the slave with the highest pid, as CrashMaster does.
	CrashSlave(ctx context.Context) (pid int, ok bool, err error)
	// HandOver moves the master's role to the slave with the given pid, or to the slave with the lowest pid if pid
	// is zero. It returns when the new master serves.
	HandOver(ctx context.Context, pid int) (HandedOver, error)
	// Workers returns the master and the slaves that run now, in any order. It does not ask the workers, so their Applied
	// may be some seconds old, and Lag is not set.
	Workers(ctx context.Context) ([]WorkerInfo, error)
	// Status returns what the control loop knows.
	Status(ctx context.Context) (ClusterStatus, error)
}

// WorkerInfo is one worker as operators see it.
type WorkerInfo struct {
	PID       int            `json:"pid"`
	Role      dbaas.Role     `json:"role"`
	Container dbaas.WorkerID `json:"container"`
	// Ready workers are caught up and serve.
	Ready   bool      `json:"ready"`
	Applied dbaas.Seq `json:"applied_seq"`
	// Lag is how many entries Applied was behind persdb's head at the same time.
	Lag uint64 `json:"lag"`
}

// ClusterStatus is the answer of /api/v1/cluster.
type ClusterStatus struct {
	Members []WorkerInfo `json:"members"`
	// Cluster identifies the history that positions and epochs belong to; absent while persdb is away.
	Cluster       dbaas.ClusterID `json:"cluster_id,omitzero"`
	Epoch         dbaas.Epoch     `json:"epoch"`
	Head          dbaas.Seq       `json:"head_seq"`
	DesiredSlaves int             `json:"desired_slaves"`
	ActualSlaves  int             `json:"actual_slaves"`
	// StartsHeldBack is how many starts of workers the leader delays because the start limit is reached.
	StartsHeldBack int `json:"starts_held_back,omitempty"`
	// Leader reports whether this orchestrator runs the control loop.
	Leader bool `json:"leader"`
	// Database is the size of persdb's database; absent while persdb is away.
	Database *dbaas.Sizes `json:"database,omitempty"`
}

// outage turns errors that the control loop passes on from the engine, the coordinator or
// persdb into CodeUnavailable, since none of them is a bug in the orchestrator.
func outage(err error) error {
	if _, ok := errors.AsType[*dbaas.Error](err); ok {
		return err
	}
	return dbaas.WrapError(dbaas.CodeUnavailable, "the cluster cannot be asked at the moment", err)
}

// crash answers POST /api/v1/crash/*: [pid] of the killed worker, 400 if there is
// none. A body is ignored.
func (a *API) crash(kill func(context.Context) (int, bool, error)) echo.HandlerFunc {
	return func(c echo.Context) error {
		pid, ok, err := kill(c.Request().Context())
		if err != nil {
			return outage(err)
		}
		if !ok {
			return dbaas.Errorf(dbaas.CodeInvalid, "there is no such worker to crash")
		}
		return httpapi.JSON(c, http.StatusOK, []int{pid})
	}
}

// workers answers GET /api/v1/worker/list: the pids, ascending.
func (a *API) workers(c echo.Context) error {
	workers, err := a.cfg.Cluster.Workers(c.Request().Context())
	if err != nil {
		return outage(err)
	}
	pids := make([]int, 0, len(workers))
	for _, w := range workers {
		pids = append(pids, w.PID)
	}
	slices.Sort(pids)
	return httpapi.JSON(c, http.StatusOK, pids)
}

func (a *API) clusterStatus(c echo.Context) error {
	status, err := a.cfg.Cluster.Status(c.Request().Context())
	if err != nil {
		return outage(err)
	}
	if status.Members == nil {
		status.Members = []WorkerInfo{}
	}
	return httpapi.JSON(c, http.StatusOK, status)
}

func (a *API) decisions(c echo.Context) error {
	return httpapi.JSON(c, http.StatusOK, a.cfg.Decisions(c.Request().Context()))
}

// readyFor answers GET /readyz. With the option noleader a missing master does not matter. As for rqlite's clients, who
// wait for this node alone, sync and timeout change nothing: a node that answers is in sync.
func (a *API) readyFor(r *http.Request) error {
	return a.ready(r.Context(), !r.URL.Query().Has("noleader"))
}

// ready returns nil if reads and, if master is set, writes can be served, else CodeUnavailable with the names of
// everything that is missing.
func (a *API) ready(ctx context.Context, master bool) error {
	var missing []string
	for _, check := range a.cfg.Checks {
		if check.Probe(ctx) != nil {
			missing = append(missing, check.Name)
		}
	}
	workers, err := a.cfg.Cluster.Workers(ctx)
	has := func(role dbaas.Role) bool {
		return slices.ContainsFunc(workers, func(w WorkerInfo) bool { return w.Role == role && w.Ready })
	}
	if master && (err != nil || !has(dbaas.RoleMaster)) {
		missing = append(missing, "master")
	}
	if err != nil || !has(dbaas.RoleSlave) {
		missing = append(missing, "caught-up slave")
	}
	if len(missing) == 0 {
		if gone := a.tables.check(ctx, a.cfg.Now, a.cfg.Dispatcher.Read); gone != "" {
			missing = append(missing, gone)
		}
	}
	if len(missing) > 0 {
		return dbaas.Errorf(dbaas.CodeUnavailable, "missing: %s", strings.Join(missing, ", "))
	}
	return nil
}
