package system

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/orchestrator/control"
	"rideshare/orchestrator/orchestratorapi"
)

// cluster adapts the control loop to the orchestrator's API.
type cluster struct {
	*control.Loop
	store     persdb
	positions func() positions
}

func (c *orchestratorParts) cluster() cluster { return cluster{c.loop, c.store, c.positions} }

// Workers returns the running master and slaves, with the positions that they registered last and without lag.
func (c cluster) Workers(ctx context.Context) ([]orchestratorapi.WorkerInfo, error) {
	members, err := c.Members(ctx)
	if err != nil {
		return nil, err
	}
	return infos(members, positions{}), nil
}

// Status returns the state known to the control loop, persdb and the workers.
func (c cluster) Status(ctx context.Context) (orchestratorapi.ClusterStatus, error) {
	status, err := c.Loop.Status(ctx)
	if err != nil {
		return orchestratorapi.ClusterStatus{}, err
	}
	out := overview(status, c.positions(), time.Now())
	out.StartsHeldBack, _ = c.StartsHeldBack()
	ctx, cancel := context.WithTimeout(ctx, positionsTimeout)
	defer cancel()
	if sizes, err := c.store.Sizes(ctx); err == nil {
		out.Database = &sizes
	}
	return out, nil
}

// overview returns what the control loop and positions say about the cluster. While persdb does not answer, epoch and head
// are the last known ones.
func overview(status control.Status, at positions, now time.Time) orchestratorapi.ClusterStatus {
	out := orchestratorapi.ClusterStatus{
		Members: infos(status.Members, at), Cluster: at.head.Cluster, Epoch: at.known.Epoch, Head: at.known.Seq,
		DesiredSlaves: status.DesiredSlaves, Leader: status.Leader,
	}
	if at.head != at.known {
		out.HeadAgeMS = max(1, now.Sub(at.knownAt).Milliseconds())
	}
	for _, h := range status.Hosts {
		out.Hosts = append(out.Hosts, orchestratorapi.HostInfo(h))
	}
	for _, m := range status.Members {
		if m.Role == dbaas.RoleSlave && m.Ready {
			out.ActualSlaves++
		}
	}
	return out
}

// HandOver hands the master's role over to another worker.
func (c cluster) HandOver(ctx context.Context, pid int, seen dbaas.Seen) (orchestratorapi.HandedOver, error) {
	done, err := c.Loop.HandOver(ctx, pid, seen)
	if err != nil {
		return orchestratorapi.HandedOver{}, err
	}
	return orchestratorapi.HandedOver{
		Old: orchestratorapi.Leadership{PID: done.OldPID, Epoch: done.OldEpoch}, New: orchestratorapi.Leadership{PID: done.NewPID, Epoch: done.NewEpoch},
	}, nil
}

// infos returns the members with their positions. A member that did not answer (it hangs, or is disconnected) keeps the
// position that it registered last, and so shows a lag.
func infos(members []control.Member, now positions) []orchestratorapi.WorkerInfo {
	out := make([]orchestratorapi.WorkerInfo, 0, len(members))
	for _, m := range members {
		info := orchestratorapi.WorkerInfo{PID: m.PID, Role: m.Role, Container: m.Worker, Ready: m.Ready, Applied: m.Applied, StartedAt: m.StartedAt, Host: cmp.Or(m.Host, now.machines[m.Worker]), WorkerLoad: now.loads[m.Worker]}
		if applied, answered := now.applied[m.Worker]; answered {
			info.Applied = applied
		}
		if now.head.Seq > info.Applied {
			info.Lag = uint64(now.head.Seq - info.Applied)
		}
		out = append(out, info)
	}
	return out
}

// checks returns the readiness checks of everything that the orchestrator needs besides workers.
func (c *orchestratorParts) checks() []orchestratorapi.Check {
	return []orchestratorapi.Check{
		{Name: "broker", Probe: func(context.Context) error { return c.conn.Ready() }},
		{Name: "coordinator", Probe: c.loop.CoordinatorReady},
		{Name: "persdb", Probe: func(ctx context.Context) error {
			_, err := c.store.Head(ctx)
			return err
		}},
		{Name: "room on persdb's disk", Probe: c.room(func(s dbaas.Sizes) bool { return !s.DiskFull })},
		{Name: "room in the database", Probe: c.room(func(s dbaas.Sizes) bool { return !s.Full })},
	}
}

// missingBroker is what missing returns while the orchestrator's own connections to the broker are not all up, although
// the workers' may be.
const missingBroker = "the orchestrator's connections to the broker"

// missing names what is still missing of a master, all wanted slaves and the orchestrator's way to them, or returns "".
func (c *orchestratorParts) missing(ctx context.Context) string {
	status, err := c.loop.Status(ctx)
	if err != nil {
		return "launcher"
	}
	masters, slaves := 0, 0
	for _, m := range status.Members {
		switch {
		case !m.Ready:
		case m.Role == dbaas.RoleMaster:
			masters++
		default:
			slaves++
		}
	}
	if masters != 1 || slaves < status.DesiredSlaves {
		return fmt.Sprintf("workers (%d of 1 master, %d of %d slaves)", masters, slaves, status.DesiredSlaves)
	}
	if c.conn.Ready() != nil {
		return missingBroker
	}
	select {
	case <-c.busChecked:
		return ""
	default:
		return "the check of the broker's largest message"
	}
}

// away names the dependencies of the workers that do not answer, with the reasons, or returns "".
func (c *orchestratorParts) away(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	var names []string
	for _, check := range c.checks() {
		if err := check.Probe(ctx); err != nil {
			names = append(names, fmt.Sprintf("%s (%v)", check.Name, err))
		}
	}
	return strings.Join(names, "; ")
}

// room returns a check that fails while persdb reports too little room. Whether persdb answers is a separate check.
func (c *orchestratorParts) room(enough func(dbaas.Sizes) bool) func(context.Context) error {
	return func(ctx context.Context) error {
		if sizes, err := c.store.Sizes(ctx); err == nil && !enough(sizes) {
			return dbaas.Errorf(dbaas.CodeFull, "there is no room")
		}
		return nil
	}
}
