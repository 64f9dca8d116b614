package scale

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/jonboulle/clockwork"

	"rideshare/internal/logkey"
)

// keptDecisions is how many decisions are kept for those who ask: a day's at
// the default period of 2 minutes.
const keptDecisions = 720

// writeTimeout bounds the writing of one decision to the coordinator.
const writeTimeout = 10 * time.Second

// Setter writes the wanted number of slaves. *control.Loop implements it.
type Setter interface {
	SetSlaves(ctx context.Context, n int) error
}

// Config is what a Scaler needs.
type Config struct {
	Log    *slog.Logger
	Setter Setter
	Policy Policy
	// Period is the length of a window: 2 minutes by default.
	Period time.Duration
	// Clock is the real one unless a test brings its own.
	Clock clockwork.Clock
}

// Scaler counts reads and decides once per period. It is safe for concurrent use.
type Scaler struct {
	cfg       Config
	scheduler gocron.Scheduler
	started   sync.Once
	reads     atomic.Int64

	mu        sync.Mutex // guards decisions
	decisions []Decision
}

// New returns a Scaler whose timer starts with the first call of Requested.
// Close it.
func New(cfg Config) (*Scaler, error) {
	if cfg.Clock == nil {
		cfg.Clock = clockwork.NewRealClock()
	}
	scheduler, err := gocron.NewScheduler(gocron.WithClock(cfg.Clock), gocron.WithLocation(time.UTC))
	if err != nil {
		return nil, fmt.Errorf("make scheduler: %w", err)
	}
	s := &Scaler{cfg: cfg, scheduler: scheduler}
	_, err = scheduler.NewJob(gocron.DurationJob(cfg.Period), gocron.NewTask(s.tick),
		gocron.WithName("scale"), gocron.WithSingletonMode(gocron.LimitModeReschedule))
	if err != nil {
		return nil, fmt.Errorf("schedule every %v: %w", cfg.Period, err)
	}
	return s, nil
}

// Requested notes a request to the database API. The first one starts the timer.
func (s *Scaler) Requested() {
	s.started.Do(s.scheduler.Start)
}

// Read counts one read.
func (s *Scaler) Read() { s.reads.Add(1) }

// tick ends a window. The counter is swapped first of all, so that reads which
// come while the decision is being written belong to the next window.
func (s *Scaler) tick(ctx context.Context) {
	reads := int(s.reads.Swap(0))
	wanted := s.cfg.Policy.Desired(reads)
	d := Decision{
		At: s.cfg.Clock.Now(), Policy: "reads", Reads: reads, Wanted: wanted,
		Why: fmt.Sprintf("%d reads in %v, %d for each slave, between %d and %d slaves", reads, s.cfg.Period, s.cfg.Policy.PerSlave, s.cfg.Policy.Min, s.cfg.Policy.Max),
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	if err := s.cfg.Setter.SetSlaves(ctx, wanted); err != nil {
		d.Why += "; not written, the next tick decides anew"
		s.cfg.Log.WarnContext(ctx, "slave count not written", logkey.Count, wanted, logkey.Error, err)
	} else {
		d.Done = true
	}
	s.cfg.Log.InfoContext(ctx, "scaling decided", "reads", reads, "wanted", wanted, "done", d.Done, logkey.Reason, d.Why)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.decisions = append(s.decisions, d)
	if over := len(s.decisions) - keptDecisions; over > 0 {
		s.decisions = slices.Delete(s.decisions, 0, over)
	}
}

// Decisions returns the last decisions, oldest first.
func (s *Scaler) Decisions() []Decision {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Decision{}, s.decisions...) // never nil: it is rendered as a list
}

// Close stops the timer and waits for a decision under way.
func (s *Scaler) Close() error {
	if err := s.scheduler.Shutdown(); err != nil {
		return fmt.Errorf("stop scheduler: %w", err)
	}
	return nil
}
