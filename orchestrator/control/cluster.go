package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/logkey"
	"rideshare/orchestrator/launch"
)

// Member is a worker that runs and has a role.
type Member struct {
	PID    int
	Worker dbaas.WorkerID
	// Host is the name of the member's host if the launchers have names.
	Host  string
	Role  dbaas.Role
	Epoch dbaas.Epoch
	// Ready members are caught up and serving: they are registered with their role, and slaves have a replica.
	Ready bool
	// Rebuilding members are fetching a new replica. A Ready slave meanwhile serves reads from its old one.
	Rebuilding bool
	// PersdbLost members have long had no answer of persdb.
	PersdbLost bool
	// Leaving members have announced that they are shutting down.
	Leaving bool
	// Silent members are on a host whose launcher does not answer: they get no other role.
	Silent bool
	// Applied is the last position that the member announced. It may have applied more since.
	Applied dbaas.Seq
	// StartedAt is when the engine started the worker.
	StartedAt time.Time
}

// Status is what the loop knows of the cluster.
type Status struct {
	Members       []Member // by ascending pid
	DesiredSlaves int
	Leader        bool
	Hosts         []HostState // by name, if the launchers have names
}

// HostState is the state of one host.
type HostState struct {
	Name string
	// State is present, silent (the launcher does not answer) or lost (nothing on the host answers).
	State string
}

// Members asks the engine which workers run now and returns those with a role, by ascending pid.
func (l *Loop) Members(ctx context.Context) ([]Member, error) {
	list, err := l.ask(ctx)
	if err != nil {
		return nil, fmt.Errorf("list workers: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	list.addRegistered(l.view.members)
	var out []Member
	for _, in := range list.instances {
		m := l.memory[in.ID]
		if !in.Running || m == nil || m.stopping || m.role == dbaas.RoleNone || l.absent(list, in, m) {
			continue
		}
		announced, known := l.view.members[in.ID]
		out = append(out, Member{
			PID: in.PID, Worker: in.ID, Host: in.Host, Silent: !list.host(in.Host).Answers(), Role: m.role, Epoch: m.epoch,
			Ready: known && announced.Role == m.role && announced.Epoch >= m.epoch && (m.role == dbaas.RoleMaster || !announced.NoReplica), Rebuilding: announced.Rebuilding, PersdbLost: announced.PersdbLost, Leaving: m.leaving, Applied: announced.Applied, StartedAt: in.StartedAt,
		})
	}
	slices.SortFunc(out, func(a, b Member) int {
		return cmp.Or(cmp.Compare(a.PID, b.PID), cmp.Compare(a.Host, b.Host), cmp.Compare(a.Worker, b.Worker))
	})
	return out, nil
}

// Status returns what the loop knows of the cluster.
func (l *Loop) Status(ctx context.Context) (Status, error) {
	members, err := l.Members(ctx)
	if err != nil {
		return Status{}, err
	}
	desired := l.guessDesired(Observed{})
	l.mu.Lock()
	defer l.mu.Unlock()
	return Status{Members: members, DesiredSlaves: desired, Leader: l.leading, Hosts: l.view.hostStates()}, nil
}

// Leads reports whether this orchestrator is the leader, as far as it knows.
func (l *Loop) Leads() bool { return l.isLeading() }

// CrashMaster kills the master and returns its pid once it is confirmed dead. ok is
// false if there is no master. CodeConflict: the cluster no longer matches seen; nothing was killed.
func (l *Loop) CrashMaster(ctx context.Context, seen dbaas.Seen) (pid int, ok bool, err error) {
	return l.crash(ctx, dbaas.RoleMaster, seen)
}

// CrashSlave is CrashMaster for the slave with the highest pid.
func (l *Loop) CrashSlave(ctx context.Context, seen dbaas.Seen) (pid int, ok bool, err error) {
	return l.crash(ctx, dbaas.RoleSlave, seen)
}

func (l *Loop) crash(ctx context.Context, role dbaas.Role, seen dbaas.Seen) (int, bool, error) {
	members, err := l.Members(ctx)
	if err != nil {
		return 0, false, err
	}
	victim, found := victimOf(members, role)
	if err = stillAs(members, victim, seen); err != nil {
		return 0, false, err
	}
	if !found {
		return 0, false, nil
	}
	l.cfg.Log.InfoContext(ctx, "worker crashed on request", logkey.Worker, string(victim.Worker), logkey.PID, victim.PID, logkey.Role, string(role))
	l.excuse(victim.Worker)
	err = l.cfg.Launcher.Kill(ctx, victim.Worker)
	if errors.Is(err, launch.ErrNoWorker) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, fmt.Errorf("kill %s: %w", victim.Worker, err)
	}
	l.Wake()
	return victim.PID, true, nil
}

// excuse marks a worker as proven, since it ends on request and not because of a fault.
func (l *Loop) excuse(id dbaas.WorkerID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if m := l.memory[id]; m != nil {
		m.proven = true
	}
}

// victimOf returns the member with the given role that has the highest pid.
func victimOf(members []Member, role dbaas.Role) (Member, bool) {
	for _, m := range slices.Backward(members) {
		if m.Role == role {
			return m, true
		}
	}
	return Member{}, false
}

// stillAs returns CodeConflict if victim is not seen.Worker, or if the master's epoch is not seen.Epoch. A zero field of
// seen is not compared.
func stillAs(members []Member, victim Member, seen dbaas.Seen) error {
	if seen.Worker != "" && seen.Worker != victim.Worker {
		return dbaas.Errorf(dbaas.CodeConflict, "this would not crash worker %.80s any more: the roles have changed", seen.Worker)
	}
	return seen.CheckEpoch(epochOf(members))
}

// epochOf returns the epoch of the master among members, or zero.
func epochOf(members []Member) dbaas.Epoch {
	master, _ := victimOf(members, dbaas.RoleMaster)
	return master.Epoch
}

// Desired returns the wanted number of slaves, as last read from the coordinator; 0 if it was never read.
func (l *Loop) Desired() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.view.desired
}

// Slaves returns how many slaves served in the last pass and, if none did, since when no slave has served.
func (l *Loop) Slaves() (int, time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.view.slaves, l.view.slaveless
}

// Master reports whether a master served in the last pass and, if not, since when there has been none.
func (l *Loop) Master() (bool, time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.view.masterless.IsZero(), l.view.masterless
}

// StartsHeldBack returns how many starts the start limit delays now, and how many it has ever delayed.
func (l *Loop) StartsHeldBack() (now, ever int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.leading {
		now = l.starts.held
	}
	return now, l.starts.total
}

// Gone reports whether a worker that was alive at since has ended: the last list of workers was requested from the
// engine after since and does not show the worker as running, or its host has been found lost since. A hung worker is not
// gone until it has been killed.
func (l *Loop) Gone(worker dbaas.WorkerID, since time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.view.gone(worker, since)
}
