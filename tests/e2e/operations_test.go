package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// member is one worker of GET cluster.
type member struct {
	PID       int    `json:"pid"`
	Role      string `json:"role"`
	Container string `json:"container"`
	Ready     bool   `json:"ready"`
	Applied   uint64 `json:"applied_seq"`
	Lag       uint64 `json:"lag"`
}

// cluster is the answer of GET cluster.
type cluster struct {
	Members       []member `json:"members"`
	Epoch         uint64   `json:"epoch"`
	DesiredSlaves int      `json:"desired_slaves"`
	ActualSlaves  int      `json:"actual_slaves"`

	StartsHeldBack int `json:"starts_held_back"`
}

// Cluster reads who is there.
func (s *system) Cluster(t *testing.T) cluster {
	t.Helper()
	return decode[cluster](t, s.Get(t, s.db("/api/v1/cluster")).expect(t, http.StatusOK, anyBody))
}

// pids are those of the workers with that role, ascending.
func (c cluster) pids(role string) []int {
	var pids []int
	for _, m := range c.Members {
		if m.Role == role {
			pids = append(pids, m.PID)
		}
	}
	slices.Sort(pids)
	return pids
}

// AwaitService waits until the system says that it is ready and takes a write and a read.
func (s *system) AwaitService(t *testing.T) {
	t.Helper()
	eventually(t, againLimit, func() error {
		for _, x := range []exchange{
			{method: "GET", url: s.db("/readyz"), status: http.StatusOK},
			{method: "GET", url: s.ridesURL() + "/count", status: http.StatusOK},
			{method: "DELETE", url: s.userURL("nobody at all"), status: http.StatusBadRequest},
		} {
			a, err := s.Try(t.Context(), x.method, x.url, x.body)
			if err != nil {
				return err
			}
			if err = a.check(x.status, anyBody); err != nil {
				return fmt.Errorf("%s %s: %w", x.method, x.url, err)
			}
		}
		return nil
	})
}

// A started system is alive and ready on every service, and serves its metrics.
func TestOperations_StartedSystem_IsReady(t *testing.T) {
	sys := shared(t)
	for _, base := range []string{sys.Users, sys.Rides, sys.Orchestrator} {
		sys.Get(t, base+"/livez").expect(t, http.StatusOK, anyBody)
		eventually(t, againLimit, func() error { return sys.Get(t, base+"/readyz").check(http.StatusOK, anyBody) })
		metrics := sys.Get(t, base+"/metrics").expect(t, http.StatusOK, anyBody)
		if !strings.Contains(metrics.Body, "rideshare_http_requests_total") {
			t.Errorf("%s/metrics: got %.200s, want the request counter", base, metrics.Body)
		}
	}
	page := sys.Get(t, sys.db("/")).expect(t, http.StatusOK, anyBody)
	if !strings.Contains(page.Header.Get("Content-Type"), "text/html") {
		t.Errorf("GET / is %s, want a page", page.Header.Get("Content-Type"))
	}
}

// worker/list has the pids of the master and the slaves, and cluster has their roles: one master and as many slaves as
// wanted.
func TestOperations_WorkersAndCluster_Agree(t *testing.T) {
	sys := shared(t)
	pids, c := sys.Workers(t), sys.Cluster(t)
	masters, slaves := c.pids("master"), c.pids("slave")
	all := slices.Sorted(slices.Values(slices.Concat(masters, slaves)))
	if !slices.Equal(pids, all) {
		t.Errorf("worker/list: got %v, want the members' %v", pids, all)
	}
	if len(masters) != 1 || len(slaves) != 1 || c.DesiredSlaves != 1 || c.ActualSlaves != 1 || c.Epoch == 0 {
		t.Errorf("cluster: got %s, want one master, one slave and an epoch", toJSON(c))
	}
	for _, m := range c.Members {
		if !m.Ready || m.Container == "" {
			t.Errorf("member: got %s, want it ready and with its container", toJSON(m))
		}
	}
}

// Reads scale the slaves: one for each started twenty in a window, down to one
// again when a window is quiet. Each decision is kept with its reason.
func TestOperations_Reads_ScaleTheSlaves(t *testing.T) {
	sys := start(t, setup{env: []string{"SCALE_PERIOD=2s", "SCALE_MAX=2"}})
	sys.Get(t, sys.db("/api/v1/scaling/decisions")).expect(t, http.StatusOK, "[]")
	stop := sys.trickle(t, 20*time.Millisecond)
	eventually(t, againLimit, func() error {
		decisions := sys.decisions(t)
		up := slices.ContainsFunc(decisions, func(d decision) bool {
			return d.Count > 20 && d.Wanted == 2 && d.Done && d.Why != ""
		})
		if !up {
			return fmt.Errorf("decisions: got %s, want one for more than 20 reads and 2 slaves", toJSON(decisions))
		}
		return nil
	})
	sys.awaitSlaves(t, 2)
	if _, err := stop(); err != nil {
		t.Error(err)
	}
	sys.awaitSlaves(t, 1)
}

// awaitSlaves waits until exactly that many slaves are wanted, listed and ready.
func (s *system) awaitSlaves(t *testing.T, slaves int) {
	t.Helper()
	eventually(t, 30*time.Second, func() error {
		c, pids := s.Cluster(t), s.Workers(t)
		ready := 0
		for _, m := range c.Members {
			if m.Ready && m.Role == "slave" {
				ready++
			}
		}
		if c.DesiredSlaves != slaves || ready != slaves || len(pids) != slaves+1 {
			return fmt.Errorf("got %s and workers %v, want %d slaves", toJSON(c), pids, slaves)
		}
		return nil
	})
}

// --slaves is the number at the first start; afterwards the number is remembered.
func TestOperations_Slaves_AreRememberedOverARestart(t *testing.T) {
	sys := start(t, setup{flags: []string{"--slaves", "3"}})
	sys.awaitSlaves(t, 3)
	sys.setup.flags = []string{"--slaves", "1"}
	sys.Restart(t)
	sys.awaitSlaves(t, 3)
}

// The stream of events reports a crash when it happens, and resumes after the last event seen.
func TestOperations_Events_TellOfACrash(t *testing.T) {
	sys := start(t, setup{})
	stream := sys.openEvents(t, "")
	pid := sys.Crash(t, "slave")
	seen := stream.await(t, func(e event) bool { return strings.Contains(e.data, fmt.Sprint(pid)) })
	stream.close()
	sys.AwaitService(t)
	resumed := sys.openEvents(t, seen.id)
	next := resumed.await(t, func(event) bool { return true })
	if next.id == seen.id || next.kind == "reset" {
		t.Errorf("resumed after event %s: got %+v, want what came after it", seen.id, next)
	}
	resumed.close()
}

// A client that resumes after a restart learns that it has missed events, whatever the event numbers are by then.
func TestOperations_Events_OverARestart_Reset(t *testing.T) {
	sys := start(t, setup{flags: []string{"--slaves", "2"}})
	stream := sys.openEvents(t, "")
	sys.Crash(t, "slave")
	seen := stream.await(t, func(event) bool { return true })
	stream.close()
	sys.Restart(t)
	resumed := sys.openEvents(t, seen.id)
	if first := resumed.await(t, func(event) bool { return true }); first.kind != "reset" {
		t.Errorf("resumed after event %s of the last life: got %+v first, want a reset", seen.id, first)
	}
	resumed.close()
}
