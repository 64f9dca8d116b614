package loadgen

import (
	"context"
	"math"
	"sync"
	"time"
)

// Stage is a part of a run with a fixed number of requests. Each of its clients sends its share, one after the other.
type Stage struct {
	Name     string
	Clients  int
	Requests int // of all clients together
	// Start says when the stage begins: when this share of the previous stage's clients have ended; 1 means all of them.
	Start float64
}

// unended is the duration of a stage that has not ended.
const unended = 24 * time.Hour

// staged is one run of stages.
type staged struct {
	g     *generator
	slots int // of the stages that have begun

	mu    sync.Mutex // guards what follows
	begun int        // stages
	ended []int      // clients of each stage that have ended
}

// stages runs all stages, and ends early with ctx.
func (g *generator) stages(ctx context.Context) {
	s := &staged{g: g, ended: make([]int, len(g.cfg.Stages))}
	s.mu.Lock()
	s.begin(ctx)
	s.mu.Unlock()
}

// begin starts the next stage. The caller holds mu.
func (s *staged) begin(ctx context.Context) {
	index := s.begun
	s.begun++
	stage := s.g.cfg.Stages[index]
	if s.g.cfg.Recorder != nil {
		s.g.cfg.Recorder.stage(time.Now(), stage)
	}
	next := 0
	for client := range stage.Clients {
		share := stage.Requests / stage.Clients
		if client < stage.Requests%stage.Clients {
			share++
		}
		slot, first := s.slots+client, next
		next += share
		s.g.group.Go(func() {
			for n := range share {
				if ctx.Err() != nil {
					return
				}
				outcome := s.g.request(ctx, Request{Due: time.Now(), Slot: slot, Stage: index, Number: first + n})
				sleepUntil(ctx, time.Now().Add(outcome.Pause))
			}
			s.end(ctx, index)
		})
	}
	s.slots += stage.Clients
}

// end notes that a client of a stage has ended, and starts the next stage when enough have.
func (s *staged) end(ctx context.Context, index int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended[index]++
	if index != s.begun-1 || s.begun == len(s.g.cfg.Stages) {
		return
	}
	if needed := math.Ceil(s.g.cfg.Stages[s.begun].Start * float64(s.g.cfg.Stages[index].Clients)); float64(s.ended[index]) >= needed {
		s.begin(ctx)
	}
}

// stage begins the next stage of a run. It adds a phase to the plan, since a run of stages has no plan before it runs.
func (r *Recorder) stage(now time.Time, stage Stage) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.endStage(now)
	r.plan = append(r.plan, Phase{Name: stage.Name, Duration: unended, From: float64(stage.Clients), To: float64(stage.Clients)})
	r.phases = append(r.phases, NewTally())
}

// endStage sets the duration of the stage that has not ended, if there is one. The caller holds mu.
func (r *Recorder) endStage(now time.Time) {
	if last := len(r.plan) - 1; last >= 0 && r.plan[last].Duration == unended {
		r.plan[last].Duration = max(1, now.Sub(r.start)-r.plan[:last].Duration())
	}
}
