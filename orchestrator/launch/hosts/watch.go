package hosts

import (
	"context"
	"slices"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/logkey"
	"rideshare/internal/wait"
	"rideshare/orchestrator/launch"
)

// host is what the Launcher knows of one host. The Launcher's mutex guards the fields after the first three.
type host struct {
	name     string
	launcher launch.Launcher
	ask      wait.Token // asks for a list

	instances []launch.Instance
	// begun and ended are the numbers of the newest list that was requested, and of the newest that was answered or failed.
	begun, ended uint64
	// started has the workers that a list may lack, since they started after it was requested.
	started      map[dbaas.WorkerID]started
	listed       time.Time // as launch.Host.Listed
	silentSince  time.Time // zero while the launcher answers, or has not been asked
	answersSince time.Time
	up           context.Context // ends when the host falls silent
	down         context.CancelFunc
}

// started is a worker that was started while list number list was the newest one requested.
type started struct {
	in   launch.Instance
	list uint64
}

func newHost(h Host) *host {
	n := &host{name: h.Name, launcher: h.Launcher, ask: wait.NewToken(), started: map[dbaas.WorkerID]started{}}
	n.up, n.down = context.WithCancel(context.Background())
	return n
}

// watch keeps what is known of a host up to date until ctx ends.
func (l *Launcher) watch(ctx context.Context, h *host) {
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		h.down()
	}()
	ticker := time.NewTicker(refreshPeriod)
	defer ticker.Stop()
	for {
		l.refresh(ctx, h)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-h.ask:
		case <-h.launcher.Events():
			l.events.Give() // the caller looks, which asks for a new list
		}
	}
}

// refresh requests a list of the host's workers.
func (l *Launcher) refresh(ctx context.Context, h *host) {
	began := time.Now()
	l.mu.Lock()
	h.begun++
	l.mu.Unlock()
	callCtx, cancel := context.WithTimeout(ctx, l.listLimit)
	defer cancel()
	list, err := h.launcher.List(callCtx)
	if ctx.Err() != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	h.ended = h.begun
	if err != nil {
		l.fails(ctx, h, began, err)
	} else {
		l.answers(ctx, h, began, list)
	}
	l.changed.Notify()
}

// fails records that a list failed. If the call ended much later than its limit, this process has stood still: then the
// silence counts from now on. The caller holds mu.
func (l *Launcher) fails(ctx context.Context, h *host, began time.Time, err error) {
	if !h.silentSince.IsZero() {
		return
	}
	if h.silentSince = began; time.Since(began) > 2*l.listLimit {
		h.silentSince = time.Now()
	}
	h.down()
	l.log.WarnContext(ctx, "host's launcher does not answer", logkey.Host, h.name, logkey.Error, err)
	l.events.Give()
}

// answers records the answer to a list. The caller holds mu.
func (l *Launcher) answers(ctx context.Context, h *host, began time.Time, list []launch.Instance) {
	h.take(list)
	h.listed = began
	if !h.silentSince.IsZero() {
		h.up, h.down = context.WithCancel(context.Background())
		l.log.InfoContext(ctx, "host's launcher answers again", logkey.Host, h.name, logkey.Took, time.Since(h.silentSince))
	}
	if !h.silentSince.IsZero() || h.answersSince.IsZero() {
		h.silentSince, h.answersSince = time.Time{}, time.Now()
		l.events.Give()
	}
}

// take stores the list that just ended. A worker that started after the list was requested may be missing in it.
func (h *host) take(list []launch.Instance) {
	h.instances = make([]launch.Instance, 0, len(list)+len(h.started))
	for _, in := range list {
		in.Host = h.name
		h.instances = append(h.instances, in)
		delete(h.started, in.ID)
	}
	for id, s := range h.started {
		if h.ended > s.list {
			delete(h.started, id)
			continue
		}
		h.instances = append(h.instances, s.in)
	}
}

// start records a worker that was started.
func (h *host) start(in launch.Instance) {
	if slices.ContainsFunc(h.instances, func(known launch.Instance) bool { return known.ID == in.ID }) {
		return
	}
	h.instances = append(h.instances, in)
	h.started[in.ID] = started{in, h.begun}
}
