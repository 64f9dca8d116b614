//go:build failpoint

package failpoint

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// errArmed is the error of points that are armed with Error.
var errArmed = errors.New("failpoint")

// slowFor is how long Slow delays a goroutine at the point.
const slowFor = time.Second

// kinds lists the actions that each name can be armed with.
var kinds = map[string][]Action{
	string(MasterTaken):          {Kill, Pause, Spin},
	string(MasterBeforeCommit):   {Kill, Pause, Spin, Error},
	string(PersdbBeforeCommit):   {Kill, Pause, Error, Slow},
	string(PersdbBeforeTables):   {Kill, Pause, Error},
	string(PersdbAfterCommit):    {Kill, Pause, Error},
	string(MasterAfterCommit):    {Kill, Pause},
	string(MasterAfterBroadcast): {Kill, Pause, Spin},
	string(MasterAfterReply):     {Kill, Pause},
	string(SlaveBeforeRead):      {Pause, Spin},
	string(ArchiveMerging):       {Kill, Pause},
	string(ArchiveMerged):        {Kill, Pause},
	string(ArchiveRemoved):       {Kill, Pause},
	string(ControlAfterKill):     {Kill, Pause},
	string(ControlAfterClaim):    {Kill, Pause},
	string(ControlBeforeAssign):  {Kill, Pause},
	string(WorkerAssigned):       {Kill, Pause},
	string(ControlAfterAssign):   {Kill, Pause},
	string(WorkerEpochTaken):     {Kill, Pause},
	string(WorkerBeforeRegister): {Kill, Pause},
	string(WorkerBeforeConsume):  {Kill, Pause},
	string(NoEpochCheck):         {TurnOn},
	string(NoDeduplication):      {TurnOn},
	string(AckBeforeCommit):      {TurnOn},
	string(NoPositionWait):       {TurnOn},
	string(NoReadPosition):       {TurnOn},
}

// registry holds the armed points of one process. It is safe for concurrent use.
type registry struct {
	mu     sync.Mutex // guards points and their fields
	points map[string]*point
	die    func()
}

type point struct {
	State
	released chan struct{} // closed when the point is armed again or disarmed
	over     atomic.Bool   // released is closed
}

func newRegistry() *registry {
	return &registry{points: map[string]*point{}, die: func() {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL) // a process can always kill itself
		select {}
	}}
}

// hit performs the action of a point; it returns an error only for Error.
func (r *registry) hit(name string) error {
	r.mu.Lock()
	p := r.points[name]
	if p == nil {
		r.mu.Unlock()
		return nil
	}
	p.Hits++
	action := p.Action
	if action == Pause || action == Spin {
		p.Waiting++
	}
	r.mu.Unlock()
	switch action {
	case Kill:
		r.die()
	case Pause:
		<-p.released
	case Spin:
		for !p.over.Load() { // Go preempts it.
		}
	case Slow:
		select {
		case <-time.After(slowFor):
		case <-p.released:
		}
	case Error:
		return fmt.Errorf("%w %s", errArmed, name)
	case TurnOn: // switches are not points
	}
	return nil
}

// arm sets the action of a point. Goroutines waiting at the point continue.
func (r *registry) arm(name string, action Action) error {
	allowed, known := kinds[name]
	if !known {
		return fmt.Errorf("there is no point %q", name)
	}
	if !slices.Contains(allowed, action) {
		return fmt.Errorf("%s does not know %q, but %v", name, action, allowed)
	}
	r.set(name, &point{State: State{Action: action}, released: make(chan struct{})})
	return nil
}

// disarm removes the action of a point. Goroutines waiting at the point continue.
func (r *registry) disarm(name string) { r.set(name, nil) }

func (r *registry) set(name string, p *point) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if old := r.points[name]; old != nil {
		close(old.released)
		old.over.Store(true)
	}
	delete(r.points, name)
	if p != nil {
		r.points[name] = p
	}
}

// armAll arms the points in a list of NAME=ACTION.
func (r *registry) armAll(list string) error {
	for item := range strings.SplitSeq(list, ",") {
		if item == "" {
			continue
		}
		name, action, _ := strings.Cut(item, "=")
		if err := r.arm(strings.TrimSpace(name), Action(strings.TrimSpace(action))); err != nil {
			return err
		}
	}
	return nil
}

// state returns the state of a point.
func (r *registry) state(name string) State {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p := r.points[name]; p != nil {
		return p.State
	}
	return State{}
}
