package assembly

import (
	"context"
	"fmt"
	"strings"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/orchestrator/api"
	"rideshare/orchestrator/control"
)

// cluster shows the control loop to the orchestrator's API.
type cluster struct {
	*control.Loop
	store persdb
}

// Workers returns the master and the slaves that run now.
func (c cluster) Workers(ctx context.Context) ([]api.WorkerInfo, error) {
	members, err := c.Members(ctx)
	if err != nil {
		return nil, err
	}
	return infos(members, c.head(ctx).Seq), nil
}

// Status returns what the control loop and persdb know.
func (c cluster) Status(ctx context.Context) (api.ClusterStatus, error) {
	status, err := c.Loop.Status(ctx)
	if err != nil {
		return api.ClusterStatus{}, err
	}
	head := c.head(ctx)
	out := api.ClusterStatus{
		Members: infos(status.Members, head.Seq), Epoch: head.Epoch, Head: head.Seq,
		DesiredSlaves: status.DesiredSlaves, Leader: status.Leader,
	}
	for _, m := range status.Members {
		if m.Role == dbaas.RoleSlave && m.Ready {
			out.ActualSlaves++
		}
	}
	return out, nil
}

// HandOver moves the master's role.
func (c cluster) HandOver(ctx context.Context, pid int) (api.HandedOver, error) {
	done, err := c.Loop.HandOver(ctx, pid)
	if err != nil {
		return api.HandedOver{}, err
	}
	return api.HandedOver{
		Old: api.Mastership{PID: done.OldPID, Epoch: done.OldEpoch}, New: api.Mastership{PID: done.NewPID, Epoch: done.NewEpoch},
	}, nil
}

// head returns persdb's head, or zero while persdb is away: then who runs is
// still worth telling.
func (c cluster) head(ctx context.Context) dbaas.Head {
	head, err := c.store.Head(ctx)
	if err != nil {
		return dbaas.Head{}
	}
	return head
}

func infos(members []control.Member, head dbaas.Seq) []api.WorkerInfo {
	out := make([]api.WorkerInfo, 0, len(members))
	for _, m := range members {
		info := api.WorkerInfo{PID: m.PID, Role: m.Role, Container: m.Worker, Ready: m.Ready, Applied: m.Applied}
		if head > m.Applied {
			info.Lag = uint64(head - m.Applied)
		}
		out = append(out, info)
	}
	return out
}

// checks are what the orchestrator needs besides workers.
func (c *core) checks() []api.Check {
	return []api.Check{
		{Name: "broker", Probe: func(context.Context) error { return c.conn.Ready() }},
		{Name: "coordinator", Probe: c.loop.CoordinatorReady},
		{Name: "persdb", Probe: func(ctx context.Context) error {
			_, err := c.store.Head(ctx)
			return err
		}},
	}
}

// missing says who is not there yet of a master and all wanted slaves, "" if
// all are.
func (c *core) missing(ctx context.Context) string {
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
	if masters == 1 && slaves >= status.DesiredSlaves {
		return ""
	}
	return fmt.Sprintf("workers (%d of 1 master, %d of %d slaves)", masters, slaves, status.DesiredSlaves)
}

// away names what the workers need and does not answer, "" if all does.
func (c *core) away(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	var names []string
	for _, check := range c.checks() {
		if check.Probe(ctx) != nil {
			names = append(names, check.Name)
		}
	}
	return strings.Join(names, ", ")
}
