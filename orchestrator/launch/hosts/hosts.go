// Package hosts combines the launchers of several hosts into one launcher. A host whose launcher does not answer delays no
// call for another host.
package hosts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/wait"
	"rideshare/orchestrator/launch"
)

const (
	// listLimit is how long a launcher may take to answer a list. A launcher that takes longer counts as silent.
	listLimit = time.Second
	// refreshPeriod is how often a launcher is asked for its list if nothing else asks.
	refreshPeriod = 500 * time.Millisecond
	// patience bounds how long Look waits for new lists. Then it returns the last ones.
	patience = 500 * time.Millisecond
)

// Host is the launcher of one host.
type Host struct {
	Name     string
	Launcher launch.Launcher
}

// Launcher implements launch.Hosts. It is safe for concurrent use.
type Launcher struct {
	log     *slog.Logger
	hosts   []*host // by name
	created time.Time
	events  wait.Token
	end     context.CancelFunc
	running sync.WaitGroup
	// patience and listLimit are the constants, except in tests.
	patience, listLimit time.Duration

	mu      sync.Mutex  // guards the fields below and those of the hosts
	changed wait.Signal // notified when a list ends
}

var _ launch.Hosts = (*Launcher)(nil)

// validName is what a host may be called. The name is a part of start ids, of registrations, and of the names of
// containers. It has no dot, because a dot ends the name in a start id.
var validName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,31}$`)

// CheckNames returns an error unless every name can be that of a host, and no two are equal.
func CheckNames(names []string) error {
	for i, name := range names {
		if !validName.MatchString(name) {
			return fmt.Errorf("host name %q: want at most 32 of a-z, 0-9 and -, beginning with a letter or digit", name)
		}
		if slices.Contains(names[:i], name) {
			return fmt.Errorf("host name %q occurs twice", name)
		}
	}
	return nil
}

// New returns a Launcher that watches the hosts until Close. Their names must pass CheckNames. Close leaves the hosts'
// launchers open.
func New(log *slog.Logger, all []Host) *Launcher { return newLauncher(log, all, patience, listLimit) }

func newLauncher(log *slog.Logger, all []Host, patience, listLimit time.Duration) *Launcher {
	ctx, end := context.WithCancel(context.Background())
	l := &Launcher{
		log: cmp.Or(log, slog.New(slog.DiscardHandler)), created: time.Now(), events: wait.NewToken(), end: end,
		patience: patience, listLimit: listLimit,
	}
	for _, h := range all {
		l.hosts = append(l.hosts, newHost(h))
	}
	slices.SortFunc(l.hosts, func(a, b *host) int { return cmp.Compare(a.name, b.name) })
	for _, h := range l.hosts {
		l.running.Go(func() { l.watch(ctx, h) })
	}
	return l
}

// Close stops watching the hosts. Workers keep running.
func (l *Launcher) Close(context.Context) error {
	l.end()
	l.running.Wait()
	return nil
}

// Events implements launch.Launcher. A host that falls silent or answers again gives a token, too.
func (l *Launcher) Events() <-chan struct{} { return l.events }

// Look implements launch.Hosts.
func (l *Launcher) Look(ctx context.Context) ([]launch.Instance, []launch.Host) {
	ctx, cancel := context.WithTimeout(ctx, l.patience)
	defer cancel()
	l.mu.Lock()
	want := map[*host]uint64{} // the first list that is requested from now on
	for _, h := range l.hosts {
		if h.silentSince.IsZero() {
			want[h] = h.begun + 1
			h.ask.Give()
		}
	}
	l.mu.Unlock()
	for {
		l.mu.Lock()
		pending := slices.ContainsFunc(l.hosts, func(h *host) bool { return h.silentSince.IsZero() && h.ended < want[h] })
		changed := l.changed.Next()
		if !pending || ctx.Err() != nil {
			defer l.mu.Unlock()
			return l.known()
		}
		l.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// known returns the workers and the state of every host. The caller holds mu.
func (l *Launcher) known() ([]launch.Instance, []launch.Host) {
	var all []launch.Instance
	var states []launch.Host
	for _, h := range l.hosts {
		all = append(all, h.instances...)
		state := launch.Host{Name: h.name, SilentSince: h.silentSince, AnswersSince: h.answersSince, Listed: h.listed}
		if h.ended == 0 { // not known yet
			state.SilentSince = l.created
		}
		states = append(states, state)
	}
	slices.SortFunc(all, launch.Order)
	return all, states
}

// List implements launch.Launcher. The workers of a silent host are those of its last list. ErrUnavailable: no host's
// launcher answers.
func (l *Launcher) List(ctx context.Context) ([]launch.Instance, error) {
	all, states := l.Look(ctx)
	if !slices.ContainsFunc(states, launch.Host.Answers) {
		return nil, fmt.Errorf("list workers: %w: no host's launcher answers", launch.ErrUnavailable)
	}
	return all, nil
}

// Start implements launch.Launcher. The start id names the host, so a start is never repeated on another host.
func (l *Launcher) Start(ctx context.Context, startID string) (launch.Instance, error) {
	name, _, _ := strings.Cut(startID, ".")
	i := slices.IndexFunc(l.hosts, func(h *host) bool { return h.name == name })
	if i < 0 {
		return launch.Instance{}, fmt.Errorf("start %s: no host is called %q", startID, name)
	}
	h := l.hosts[i]
	var in launch.Instance
	err := l.call(ctx, h, func(ctx context.Context) (err error) {
		in, err = h.launcher.Start(ctx, startID)
		return err
	})
	if err != nil {
		return launch.Instance{}, err
	}
	in.Host = h.name
	l.mu.Lock()
	defer l.mu.Unlock()
	h.start(in)
	return in, nil
}

// Kill implements launch.Launcher.
func (l *Launcher) Kill(ctx context.Context, id dbaas.WorkerID) error {
	return l.at(ctx, id, func(ctx context.Context, to launch.Launcher) error { return to.Kill(ctx, id) })
}

// Stop implements launch.Launcher.
func (l *Launcher) Stop(ctx context.Context, id dbaas.WorkerID, grace time.Duration) error {
	return l.at(ctx, id, func(ctx context.Context, to launch.Launcher) error { return to.Stop(ctx, id, grace) })
}

// Remove implements launch.Launcher.
func (l *Launcher) Remove(ctx context.Context, id dbaas.WorkerID) error {
	err := l.at(ctx, id, func(ctx context.Context, to launch.Launcher) error { return to.Remove(ctx, id) })
	if errors.Is(err, launch.ErrNoWorker) {
		return nil
	}
	return err
}

// at makes a call to the launcher of a worker's host.
func (l *Launcher) at(ctx context.Context, id dbaas.WorkerID, do func(context.Context, launch.Launcher) error) error {
	h := l.hostOf(id)
	if h == nil {
		_, states := l.Look(ctx)
		if h = l.hostOf(id); h == nil {
			return l.unlisted(id, states)
		}
	}
	return l.call(ctx, h, func(ctx context.Context) error { return do(ctx, h.launcher) })
}

// unlisted returns the error for a worker that no host lists: it may still run on a silent host.
func (l *Launcher) unlisted(id dbaas.WorkerID, states []launch.Host) error {
	for _, s := range states {
		if !s.Answers() {
			return fmt.Errorf("worker %s, perhaps on host %s: %w", id, s.Name, launch.ErrSilent)
		}
	}
	return fmt.Errorf("worker %s: %w", id, launch.ErrNoWorker)
}

func (l *Launcher) hostOf(id dbaas.WorkerID) *host {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range l.hosts {
		if slices.ContainsFunc(h.instances, func(in launch.Instance) bool { return in.ID == id }) {
			return h
		}
	}
	return nil
}

// call makes one call to a host's launcher. It fails immediately while the host is silent, and ends when the host falls
// silent: then the call may still take effect.
func (l *Launcher) call(ctx context.Context, h *host, do func(context.Context) error) error {
	l.mu.Lock()
	up, silent := h.up, !h.silentSince.IsZero()
	l.mu.Unlock()
	away := fmt.Errorf("host %s: %w", h.name, launch.ErrSilent)
	if silent {
		return away
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(up, cancel)()
	err := do(ctx)
	if err != nil && up.Err() != nil && !errors.Is(err, launch.ErrNoWorker) {
		return fmt.Errorf("%w: %w", away, err)
	}
	return err
}
