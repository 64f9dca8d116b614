package orchestratorapi

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"rideshare/internal/dbaas"
	"rideshare/internal/httpapi"
)

// Cluster is what this package needs from the control loop. It must be safe for
// concurrent use.
type Cluster interface {
	// CrashMaster kills the master and returns its pid once it is confirmed dead. ok is false if there is no master.
	// CodeConflict: the cluster no longer matches seen; nothing was killed.
	CrashMaster(ctx context.Context, seen dbaas.Seen) (pid int, ok bool, err error)
	// CrashSlave is CrashMaster for the slave with the highest pid.
	CrashSlave(ctx context.Context, seen dbaas.Seen) (pid int, ok bool, err error)
	// HandOver moves the master's role to the slave with the given pid or, if pid is zero, to the caught-up slave with the
	// lowest pid. It returns when the new master serves. CodeConflict as for CrashMaster.
	HandOver(ctx context.Context, pid int, seen dbaas.Seen) (HandedOver, error)
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
	// StartedAt is when the engine started the worker.
	StartedAt time.Time `json:"started_at,omitzero"`
	// Host is the name of the worker's host at the launchers. With one launcher, without a name, it is the name of the
	// worker's machine or container, and absent while the worker does not answer.
	Host string `json:"host,omitempty"`
	// WorkerLoad is what the worker reports about itself; absent while the worker does not answer.
	*WorkerLoad
}

// WorkerLoad is how much a worker has to do.
type WorkerLoad struct {
	// MemoryBytes is the resident memory of the worker's process, which embedded workers share; 0 if it is not known.
	MemoryBytes int64 `json:"memory_bytes"`
	// ReadsInFlight is how many reads the worker has taken and not answered yet.
	ReadsInFlight int64 `json:"reads_in_flight"`
	// Busy is the fraction of the worker's read slots that was in use over the last second or more.
	Busy float64 `json:"busy"`
}

// HostInfo is one of several hosts with a launcher of its own.
type HostInfo struct {
	Name string `json:"name"`
	// State is present, silent (the launcher does not answer) or lost (nothing on the host answers).
	State string `json:"state"`
}

// ClusterStatus is the answer of /api/v1/cluster.
type ClusterStatus struct {
	Members []WorkerInfo `json:"members"`
	// Cluster identifies the history that positions and epochs belong to; absent while persdb is away.
	Cluster dbaas.ClusterID `json:"cluster_id,omitzero"`
	Epoch   dbaas.Epoch     `json:"epoch"`
	Head    dbaas.Seq       `json:"head_seq"`
	// HeadAgeMS is how old Epoch and Head are, in milliseconds, while persdb is away; absent if they are of this moment, or
	// were never known and are zero.
	HeadAgeMS     int64 `json:"head_age_ms,omitempty"`
	DesiredSlaves int   `json:"desired_slaves"`
	ActualSlaves  int   `json:"actual_slaves"`
	// StartsHeldBack is how many starts of workers the leader delays because the start limit is reached.
	StartsHeldBack int `json:"starts_held_back,omitempty"`
	// Hosts are the hosts, if the launchers have names.
	Hosts []HostInfo `json:"hosts,omitempty"`
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
// none, 409 if the cluster no longer matches the options worker and epoch. A body is ignored.
func (a *API) crash(kill func(context.Context, dbaas.Seen) (int, bool, error)) echo.HandlerFunc {
	return func(c echo.Context) error {
		seen, err := seenBy(c.Request().URL)
		if err != nil {
			return err
		}
		pid, ok, err := kill(c.Request().Context(), seen)
		if err != nil {
			return outage(err)
		}
		if !ok {
			return dbaas.Errorf(dbaas.CodeInvalid, "there is no such worker to crash")
		}
		return httpapi.JSONExactly(c, http.StatusOK, []int{pid})
	}
}

// seenBy returns the options worker and epoch of a destructive request. Errors are CodeInvalid for an option that is
// malformed, empty or given twice, since without it the request would do more, and CodeConflict for epoch 0, which no
// master has.
func seenBy(u *url.URL) (seen dbaas.Seen, err error) {
	given, err := httpapi.Query(u)
	if err != nil {
		return seen, err
	}
	for _, name := range []string{"worker", "epoch"} {
		if values, ok := given[name]; ok && (len(values) > 1 || values[0] == "") {
			return seen, dbaas.Errorf(dbaas.CodeInvalid, "%s needs one value", name)
		}
	}
	seen.Worker = dbaas.WorkerID(given.Get("worker"))
	if !given.Has("epoch") {
		return seen, nil
	}
	epoch, err := strconv.ParseUint(given.Get("epoch"), 10, 64)
	if err != nil {
		return seen, dbaas.Errorf(dbaas.CodeInvalid, "epoch must be a number")
	}
	if epoch == 0 {
		return seen, dbaas.Errorf(dbaas.CodeConflict, "no master has epoch 0: look at the cluster again")
	}
	seen.Epoch = dbaas.Epoch(epoch)
	return seen, nil
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
	return httpapi.JSONExactly(c, http.StatusOK, pids)
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

// readyFor answers GET /readyz. With the option noleader a missing master does not matter. The options sync and timeout
// of rqlite's clients change nothing: they wait until this node is in sync, and a node that answers is in sync.
func (a *API) readyFor(r *http.Request) error {
	return a.ready(r.Context(), !r.URL.Query().Has("noleader"))
}

// ready returns nil if reads and, if master is set, writes can be served, else CodeUnavailable with the names of
// everything that is missing.
func (a *API) ready(ctx context.Context, master bool) error {
	if missing := a.missing(ctx, master); len(missing) > 0 {
		return dbaas.Errorf(dbaas.CodeUnavailable, "missing: %s", strings.Join(missing, ", "))
	}
	return nil
}

// The conditions of readiness besides Config.Checks.
const (
	conditionMaster = "master"
	conditionSlave  = "caught-up slave"
)

// missing returns the names of everything that is missing to serve reads and, if master is set, writes.
func (a *API) missing(ctx context.Context, master bool) []string {
	// All are asked at the same time: a part that is silent takes no time from the others.
	failed := make([]bool, len(a.cfg.Checks))
	var probes sync.WaitGroup
	for i, check := range a.cfg.Checks {
		probes.Go(func() { failed[i] = check.Probe(ctx) != nil })
	}
	workers, err := a.cfg.Cluster.Workers(ctx)
	probes.Wait()
	var missing []string
	for i, check := range a.cfg.Checks {
		if failed[i] {
			missing = append(missing, check.Name)
		}
	}
	has := func(role dbaas.Role) bool {
		return slices.ContainsFunc(workers, func(w WorkerInfo) bool { return w.Role == role && w.Ready })
	}
	if master && (err != nil || !has(dbaas.RoleMaster)) {
		missing = append(missing, conditionMaster)
	}
	if err != nil || !has(dbaas.RoleSlave) {
		missing = append(missing, conditionSlave)
	}
	if len(missing) == 0 {
		if gone := a.tables.check(ctx, a.cfg.Now, a.cfg.Dispatcher.Read); gone != "" {
			missing = append(missing, gone)
		}
	}
	return missing
}
