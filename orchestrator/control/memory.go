package control

import (
	"time"

	"rideshare/internal/coord"
	"rideshare/internal/dbaas"
	"rideshare/internal/wait"
	"rideshare/orchestrator/launch"
)

// memory is what the loop remembers of a worker between passes. It need not survive a restart: a new
// orchestrator reads the roles from the coordinator.
type memory struct {
	role      dbaas.Role
	epoch     dbaas.Epoch
	newest    dbaas.Epoch // newest epoch that the worker was assigned or registered with
	roleSince time.Time   // as Worker.RoleSince
	progress  progress
	present   bool // was registered, with any role, in the last pass that could read the coordinator
	seen      bool // was registered with its present role in that pass
	lostAt    time.Time
	busLostAt time.Time // as Worker.BusLostAt
	noReplica bool      // as Worker.NoReplica
	rebuilds  bool      // as Worker.Rebuilding
	noPersdb  bool      // as Worker.PersdbLost
	persdbAt  time.Time // as Worker.PersdbSince
	leaving   bool
	yieldTo   dbaas.WorkerID
	found     bool // as Worker.Found
	proven    bool // as Worker.Proven
	assigning bool // as Worker.Assigning
	stopping  bool // a kill, a stop or a removal is under way
	killSince time.Time
	removal   wait.Backoff // after failed removals
	pid       int          // kept after the worker has died
	host      string
	died      bool      // the event for its death was emitted
	heardAt   time.Time // when the worker last answered when it was asked for its pulse
}

// look updates m from the worker's registration, and reports whether it adopted a role that this loop did not assign.
//
// While this loop leads, its own record overrides the registration, since a worker stays registered with its old role
// until it has the new one. The registration is adopted if the worker's role is unknown, if another orchestrator leads,
// if its epoch is newer than any that this loop knows for the worker, or if the worker was registered as master before and is a slave
// now: a demotion whose answer was lost took effect.
func (m *memory) look(member coord.Member, present, leading bool, now time.Time) (adopted bool) {
	unknown := m.role == dbaas.RoleNone && !m.assigning
	demoted := m.seen && m.role == dbaas.RoleMaster && member.Role == dbaas.RoleSlave
	if present && (unknown || !leading || member.Epoch > m.newest || demoted) {
		if adopted = m.role != member.Role || m.epoch != member.Epoch; adopted {
			m.role, m.epoch, m.roleSince = member.Role, member.Epoch, now
		}
	}
	if present {
		m.proven = true
		m.newest = max(m.newest, member.Epoch)
		m.leaving, m.yieldTo = m.leaving || member.Leaving, member.YieldTo
		m.lostAt = time.Time{}
		m.busLostAt = since(m.busLostAt, member.BusLost, now)
		if m.noPersdb != member.PersdbLost || !m.present {
			m.noPersdb, m.persdbAt = member.PersdbLost, now
		}
		m.noReplica, m.rebuilds = member.NoReplica, member.Rebuilding
	} else if m.present {
		m.lostAt = now
	}
	m.present = present
	m.seen = present && member.Role == m.role && member.Epoch >= m.epoch
	return adopted
}

// assigned records a role that the worker accepted.
func (m *memory) assigned(role dbaas.Role, epoch dbaas.Epoch, now time.Time) {
	m.role, m.epoch, m.roleSince, m.progress.at = role, epoch, now, time.Time{}
	m.newest = max(m.newest, epoch)
	m.seen, m.lostAt = false, time.Time{} // until it is registered with this role
}

// refused records that the worker did not accept a role.
func (m *memory) refused(now time.Time) {
	if m.role == dbaas.RoleNone && m.roleSince.IsZero() {
		m.roleSince = now
	}
}

// worker returns the worker as the plan sees it.
func (m *memory) worker(in launch.Instance) Worker {
	return Worker{
		ID: in.ID, PID: in.PID, Host: in.Host, Running: in.Running,
		Role: m.role, Epoch: m.epoch, RoleSince: m.roleSince, ProgressAt: m.progress.at, Found: m.found, Proven: m.proven,
		Registered: m.seen, LostAt: m.lostAt, BusLostAt: m.busLostAt, PersdbLost: m.noPersdb, PersdbSince: m.persdbAt,
		NoReplica: m.noReplica, Rebuilding: m.rebuilds, Leaving: m.leaving, YieldTo: m.yieldTo, Assigning: m.assigning,
		Stopping: m.stopping, KillSince: m.killSince,
	}
}
