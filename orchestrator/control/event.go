package control

import (
	"rideshare/internal/dbaas"
	"rideshare/internal/logkey"
	"rideshare/orchestrator/launch"
)

// The types of events.
const (
	EventRole       = "role"       // a worker was given a role
	EventMembership = "membership" // a worker began or ceased to serve, or died
	EventScale      = "scale"      // the wanted number of slaves changed
)

// WorkerEvent is the data of EventRole and EventMembership.
type WorkerEvent struct {
	PID    int            `json:"pid"`
	Worker dbaas.WorkerID `json:"worker"`
	// Host is the name of the worker's host if the launchers have names.
	Host  string      `json:"host,omitempty"`
	Role  dbaas.Role  `json:"role"`
	Epoch dbaas.Epoch `json:"epoch,omitempty"`
	// Change is assigned (by this orchestrator), found (with a role that another orchestrator assigned), serving,
	// leaving, hung (silent or stuck), lost (the worker runs, but its registration is gone) or died.
	Change string `json:"change"`
	// ExitCode is set only when Change is died: 137 for SIGKILL.
	ExitCode int `json:"exit_code,omitempty"`
}

// ScaleEvent is the data of EventScale.
type ScaleEvent struct {
	Slaves int `json:"slaves"`
}

// emit passes an event on, if the configuration asks for events.
func (l *Loop) emit(kind string, v any) {
	if l.cfg.Event != nil {
		l.cfg.Event(kind, v)
	}
}

// emitWorker emits and logs what changed for a worker between two passes. The caller holds mu.
func (l *Loop) emitWorker(in launch.Instance, m *memory, before memory) {
	e := WorkerEvent{PID: m.pid, Worker: in.ID, Host: in.Host, Role: m.role, Epoch: m.epoch}
	switch {
	case !in.Running && !m.died:
		m.died = true
		e.Change, e.ExitCode = "died", in.ExitCode
	case !in.Running:
		return
	case m.leaving && !before.leaving:
		e.Change = "leaving"
	case m.seen && !before.seen:
		e.Change = "serving"
	case !m.present && before.present:
		e.Change = "lost"
	default:
		return
	}
	log := l.cfg.Log.With("change", e.Change, logkey.Worker, string(in.ID), logkey.PID, m.pid,
		logkey.Role, string(m.role), logkey.Epoch, uint64(m.epoch))
	if in.Host != "" {
		log = log.With(logkey.Host, in.Host)
	}
	if m.died {
		log = log.With(logkey.Code, e.ExitCode)
	}
	log.Info("worker changed")
	l.emit(EventMembership, e)
}
