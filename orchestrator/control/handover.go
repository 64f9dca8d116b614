package control

import (
	"context"
	"fmt"
	"slices"

	"rideshare/internal/dbaas"
	"rideshare/internal/logkey"
	"rideshare/internal/workerapi"
)

// HandedOver names the previous and the new master.
type HandedOver struct {
	OldPID, NewPID     int
	OldEpoch, NewEpoch dbaas.Epoch
}

// HandOver moves the master's role to the slave with the given pid or, if pid is zero, to the caught-up slave with the
// lowest pid. It returns when the new master serves. No request fails because of a hand-over.
//
// HandOver works on any orchestrator: the master announces the wish, the leading loop acts on it, and HandOver waits.
// Errors are *dbaas.Error:
//   - CodeInvalid: no worker has that pid.
//   - CodeConflict: that worker, or without a pid any slave, cannot become master now; or the cluster no longer matches
//     seen.
//   - CodeUnavailable: there is no master or no coordinator, or the hand-over did not happen in time. After such a
//     timeout the wish has expired, but the loop may still have acted on it at the last moment.
func (l *Loop) HandOver(ctx context.Context, pid int, seen dbaas.Seen) (HandedOver, error) {
	ctx, cancel := context.WithTimeout(ctx, workerapi.YieldFor)
	defer cancel()
	if err := l.CoordinatorReady(ctx); err != nil {
		return HandedOver{}, dbaas.WrapError(dbaas.CodeUnavailable, "the coordinator does not answer", err)
	}
	members, err := l.Members(ctx)
	if err != nil {
		return HandedOver{}, dbaas.WrapError(dbaas.CodeUnavailable, "the workers cannot be listed", err)
	}
	old, successor, err := masterAndSuccessor(members, pid)
	if err == nil {
		err = seen.CheckEpoch(old.Epoch)
	}
	if err != nil {
		return HandedOver{}, err
	}
	in, ok := l.instance(old.Worker)
	if !ok {
		return HandedOver{}, dbaas.Errorf(dbaas.CodeUnavailable, "there is no master at the moment")
	}
	l.cfg.Log.InfoContext(ctx, "hand-over requested", logkey.PID, old.PID, logkey.Epoch, uint64(old.Epoch), "to", successor.PID)
	if err = l.cfg.Workers.Yield(ctx, in.Control, workerapi.Yield{Worker: old.Worker, To: successor.Worker}); err != nil {
		return HandedOver{}, err
	}
	next, err := l.awaitMaster(ctx, old.Epoch)
	if err != nil {
		return HandedOver{}, err
	}
	return HandedOver{OldPID: old.PID, OldEpoch: old.Epoch, NewPID: next.PID, NewEpoch: next.Epoch}, nil
}

// follows reports whether a member can become master now.
func (m Member) follows() bool {
	return m.Role == dbaas.RoleSlave && m.Ready && !m.Rebuilding && !m.PersdbLost && !m.Leaving && !m.Silent
}

// masterAndSuccessor returns the master and the slave that is to succeed it.
func masterAndSuccessor(members []Member, pid int) (master, successor Member, err error) {
	find := func(is func(Member) bool) (Member, bool) {
		if i := slices.IndexFunc(members, is); i >= 0 {
			return members[i], true
		}
		return Member{}, false
	}
	master, ok := find(func(m Member) bool { return m.Role == dbaas.RoleMaster && m.Ready })
	if !ok {
		return master, successor, dbaas.Errorf(dbaas.CodeUnavailable, "there is no master at the moment")
	}
	if pid == 0 {
		if successor, ok = find(func(m Member) bool { return m.follows() }); !ok {
			return master, successor, dbaas.Errorf(dbaas.CodeConflict, "there is no caught-up slave that could follow")
		}
		return master, successor, nil
	}
	// Workers on two hosts may have the same pid: prefer the worker that can become master now.
	successor, ok = find(func(m Member) bool { return m.PID == pid && m.follows() })
	if !ok {
		successor, ok = find(func(m Member) bool { return m.PID == pid })
	}
	switch {
	case !ok:
		return master, successor, dbaas.Errorf(dbaas.CodeInvalid, "no worker has pid %d", pid)
	case successor.Worker == master.Worker:
		return master, successor, dbaas.Errorf(dbaas.CodeConflict, "worker %d is the master already", pid)
	case !successor.follows():
		return master, successor, dbaas.Errorf(dbaas.CodeConflict, "worker %d is not a slave that has caught up", pid)
	}
	return master, successor, nil
}

// awaitMaster returns the first serving master with an epoch above epoch, or CodeUnavailable when ctx ends.
func (l *Loop) awaitMaster(ctx context.Context, epoch dbaas.Epoch) (Member, error) {
	for {
		looked := l.looked.Next()
		members, err := l.Members(ctx)
		if err != nil {
			return Member{}, dbaas.WrapError(dbaas.CodeUnavailable, "the workers cannot be listed", err)
		}
		for _, m := range members {
			if m.Role == dbaas.RoleMaster && m.Ready && m.Epoch > epoch {
				return m, nil
			}
		}
		select {
		case <-looked:
		case <-ctx.Done():
			return Member{}, dbaas.WrapError(dbaas.CodeUnavailable, fmt.Sprintf("leadership %d was not handed over in time", epoch), ctx.Err())
		}
	}
}
