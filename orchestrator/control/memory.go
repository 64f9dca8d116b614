package control

import (
	"time"

	"rideshare/internal/coord"
	"rideshare/internal/dbaas"
	"rideshare/orchestrator/launch"
)

// memory is what the loop remembers of a worker between passes. All of it can be
// forgotten: a new orchestrator finds roles in the coordinator.
type memory struct {
	role      dbaas.Role
	epoch     dbaas.Epoch
	newest    dbaas.Epoch // of the masterships that it was given or seen with
	roleSince time.Time   // as Worker.RoleSince
	progress  progress
	present   bool // was registered, in whatever role, in the last pass that could tell
	seen      bool // was registered with its role then
	lostAt    time.Time
	busLostAt time.Time // as Worker.BusLostAt
	noReplica bool      // as Worker.NoReplica
	leaving   bool
	yieldTo   dbaas.WorkerID
	found     bool // as Worker.Found
	enlisting bool // is being told to be a slave
	stopping  bool // a kill, a stop or a removal is under way
	doomedAt  time.Time
	pid       int  // as long as it ran
	died      bool // its death was told
}

// look updates what is known of a worker by its registration, and reports whether it was found with
// a role that we did not give it.
//
// While this loop leads it knows better: a worker goes on being registered with its old role until it has the new
// one. But a role that somebody else gave is believed: to one of which nothing is known, by the
// orchestrator that leads, and any mastership that is newer than what we know.
func (m *memory) look(member coord.Member, present, leading bool, now time.Time) (adopted bool) {
	unknown := m.role == dbaas.RoleNone && !m.enlisting
	if present && (unknown || !leading || member.Epoch > m.newest) {
		if adopted = m.role != member.Role || m.epoch != member.Epoch; adopted {
			m.role, m.epoch, m.roleSince = member.Role, member.Epoch, now
		}
	}
	if present {
		m.newest = max(m.newest, member.Epoch)
		m.leaving, m.yieldTo = m.leaving || member.Leaving, member.YieldTo
		m.lostAt = time.Time{}
		m.busLostAt = since(m.busLostAt, member.BusLost, now)
		m.noReplica = member.NoReplica
	} else if m.present {
		m.lostAt = now
	}
	m.present = present
	m.seen = present && member.Role == m.role && member.Epoch >= m.epoch
	return adopted
}

// assigned notes a role that the worker took.
func (m *memory) assigned(role dbaas.Role, epoch dbaas.Epoch, now time.Time) {
	m.role, m.epoch, m.roleSince, m.progress.at = role, epoch, now, time.Time{}
	m.newest = max(m.newest, epoch)
	m.seen, m.lostAt = false, time.Time{} // until it is registered with this role
}

// refused notes that the worker did not take a role.
func (m *memory) refused(now time.Time) {
	if m.role == dbaas.RoleNone && m.roleSince.IsZero() {
		m.roleSince = now
	}
}

// worker is the worker as the plan sees it.
func (m *memory) worker(in launch.Instance) Worker {
	return Worker{
		ID: in.ID, PID: in.PID, Running: in.Running,
		Role: m.role, Epoch: m.epoch, RoleSince: m.roleSince, ProgressAt: m.progress.at, Found: m.found,
		Registered: m.seen, LostAt: m.lostAt, BusLostAt: m.busLostAt, NoReplica: m.noReplica, Leaving: m.leaving, YieldTo: m.yieldTo, Enlisting: m.enlisting,
		Stopping: m.stopping, DoomedAt: m.doomedAt,
	}
}
