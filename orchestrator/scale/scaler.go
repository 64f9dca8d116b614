package scale

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/jonboulle/clockwork"

	"rideshare/internal/coord"
)

// Cluster is what a Scaler needs from the control loop. It must be safe for concurrent
// use. *control.Loop implements it.
type Cluster interface {
	// Desired returns the wanted number of slaves, 0 if it is not known.
	Desired() int
	// SetSlaves writes the wanted number of slaves for the control loop.
	SetSlaves(ctx context.Context, n int) error
	// Value and SetValue are as in coord.Session.
	Value(ctx context.Context, name string) ([]byte, coord.Version, error)
	SetValue(ctx context.Context, name string, value []byte, old coord.Version) error
}

// Config is what a Scaler needs. All but Observe, Decided and Clock are required.
type Config struct {
	Log     *slog.Logger
	Cluster Cluster
	// Name identifies this orchestrator among those of the same stack.
	Name string
	// Settings are used until Apply changes them, at this or another orchestrator. The proposals of the policies other
	// than Settings.Policy are only recorded.
	Settings Settings
	// Period is the length of a window: 2 minutes by default.
	Period time.Duration
	// Observe measures all fields of a Sample except Reads and Desired, over the time since the last call. It
	// must return within a few seconds. If Observe is nil, those fields are missing.
	Observe func(ctx context.Context) Sample
	// Decided, if set, is called with each decision once it is done or overtaken.
	Decided func(d Decision)
	// Clock is the real clock by default.
	Clock clockwork.Clock
}

// Scaler counts reads and decides once per period. It is safe for concurrent use.
type Scaler struct {
	cfg       Config
	scheduler gocron.Scheduler
	started   sync.Once
	reads     atomic.Int64

	windows    chan window // windows that ended and have no decision yet
	ticked     time.Time   // when the last window ended; used only by tick, which the scheduler never runs twice at a time
	stop       context.CancelFunc
	background sync.WaitGroup

	mu   sync.Mutex // guards the fields below
	last ledger     // as last read or written
	used Settings   // settings of the last decision
	// undone are the decisions that are not in the coordinator yet, oldest first.
	undone []Decision
}

// backlog is how many windows may wait for a coordinator that neither answers nor refuses. Each
// attempt is bounded by tryTimeout, so that fewer wait even at the shortest period.
const backlog = 16

// window is the window that ended at a tick.
type window struct {
	at    time.Time
	reads int
}

// New returns a Scaler whose timer starts with the first call of Requested. The caller
// closes the Scaler.
func New(cfg Config) (*Scaler, error) {
	if cfg.Clock == nil {
		cfg.Clock = clockwork.NewRealClock()
	}
	scheduler, err := gocron.NewScheduler(gocron.WithClock(cfg.Clock), gocron.WithLocation(time.UTC))
	if err != nil {
		return nil, fmt.Errorf("make scheduler: %w", err)
	}
	s := &Scaler{cfg: cfg, scheduler: scheduler, windows: make(chan window, backlog), used: cfg.Settings}
	_, err = scheduler.NewJob(gocron.DurationJob(cfg.Period), gocron.NewTask(s.tick),
		gocron.WithName("scale"), gocron.WithSingletonMode(gocron.LimitModeReschedule))
	if err != nil {
		return nil, fmt.Errorf("schedule every %v: %w", cfg.Period, err)
	}
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.background.Go(func() { s.run(ctx) })
	return s, nil
}

// Requested is called for each request to the database API. The first call starts the timer.
func (s *Scaler) Requested() {
	s.started.Do(s.scheduler.Start)
}

// Read counts one read.
func (s *Scaler) Read() { s.reads.Add(1) }

// tick ends a window. It resets the counter itself, before the decision is made, so that reads
// that arrive while the decision is made and written belong to the next window. An older window
// whose decision has not been written yet is overtaken by the new window.
//
// The scheduler may fire twice for one tick. The second call is ignored: a window of zero length would look like a
// window without reads.
func (s *Scaler) tick() {
	now := s.cfg.Clock.Now()
	if !s.ticked.IsZero() && now.Sub(s.ticked).Abs() < s.cfg.Period/2 {
		return
	}
	s.ticked = now
	w := window{at: now.UTC().Truncate(time.Millisecond), reads: int(s.reads.Swap(0))}
	for {
		select {
		case s.windows <- w:
			return
		default:
		}
		select {
		case <-s.windows: // the oldest
		default:
		}
	}
}

// Decisions returns the last decisions of all orchestrators, oldest first. While the coordinator
// is away, it returns the decisions that this orchestrator knows of.
func (s *Scaler) Decisions(ctx context.Context) []Decision {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	l, _, err := s.load(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		l = s.last
	}
	out := append([]Decision{}, l.Decisions...) // never nil: it is rendered as a list
	return append(out, s.undone...)
}

// Close stops the timer and gives up a decision that cannot be written. A decision that is
// written but not carried out is carried out by the next Scaler.
func (s *Scaler) Close() error {
	err := s.scheduler.Shutdown()
	s.stop()
	s.background.Wait()
	if err != nil {
		return fmt.Errorf("stop scheduler: %w", err)
	}
	return nil
}
