package loadgen

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// Recorder collects the outcomes of the requests of one run by second, kind and phase. It is safe for concurrent use. A
// request belongs to the second in which its answer arrived, and to the phase in which it was due.
type Recorder struct {
	mu      sync.Mutex // guards everything below
	start   time.Time
	plan    Plan
	took    time.Duration // of the whole run, once it has ended
	all     *Tally
	kinds   map[string]*Tally
	phases  []*Tally
	current map[string]*Tally // of the second in progress, by kind
	seconds []Second
}

// NewRecorder returns an empty recorder, for one run.
func NewRecorder() *Recorder {
	return &Recorder{all: NewTally(), kinds: map[string]*Tally{}, current: map[string]*Tally{}}
}

func (r *Recorder) begin(start time.Time, plan Plan) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.start, r.plan = start, plan
	for range plan {
		r.phases = append(r.phases, NewTally())
	}
}

// record notes one request that was due at due and answered at end.
func (r *Recorder) record(due, end time.Time, outcome Outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.advance(end)
	t := r.current[outcome.Kind]
	if t == nil {
		t = NewTally()
		r.current[outcome.Kind] = t
		r.kinds[outcome.Kind] = NewTally()
	}
	t.Add(end.Sub(due), outcome.Failure)
	phase, _ := r.plan.At(due.Sub(r.start))
	r.phases[phase].Add(end.Sub(due), outcome.Failure)
}

// advance closes the seconds that have ended by now. The caller holds mu.
func (r *Recorder) advance(now time.Time) {
	for now.Sub(r.start) >= r.next()+time.Second {
		r.close(time.Second)
	}
}

// next returns the start of the second in progress.
func (r *Recorder) next() time.Duration { return time.Duration(len(r.seconds)) * time.Second }

// close ends the second in progress, took after its start.
func (r *Recorder) close(took time.Duration) {
	at := r.next()
	_, level := r.plan.At(at + took/2)
	second := Second{At: at, Took: took, Level: level, Kinds: map[string]Figures{}}
	sum := NewTally()
	for kind, t := range r.current {
		if t.latencies.TotalCount() == 0 {
			continue
		}
		second.Kinds[kind] = t.Figures()
		r.kinds[kind].Merge(t)
		sum.Merge(t)
		t.reset()
	}
	second.All = sum.Figures()
	r.all.Merge(sum)
	r.seconds = append(r.seconds, second)
}

// end closes the run and returns its summary.
func (r *Recorder) end(now time.Time) Summary {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.endStage(now)
	r.advance(now)
	r.took = now.Sub(r.start)
	if rest := r.took - r.next(); rest > 0 {
		r.close(rest)
	}
	return r.summary()
}

// Progress is the state of a run.
type Progress struct {
	Phase int // index in the plan
	// Left is the time to the plan's end.
	Left time.Duration
	// Last is the last whole second; Total is the run up to the end of Last.
	Last  Second
	Total Figures
}

// Progress returns the state of the run at now. Until the first second is over its figures are zero; before the start
// every field is.
func (r *Recorder) Progress(now time.Time) Progress {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.start.IsZero() {
		return Progress{}
	}
	r.advance(now)
	elapsed := now.Sub(r.start)
	p := Progress{Left: max(0, r.plan.Duration()-elapsed), Total: r.all.Figures()}
	p.Phase, _ = r.plan.At(elapsed)
	if len(r.seconds) > 0 {
		p.Last = r.seconds[len(r.seconds)-1]
	}
	return p
}

// summary summarizes a run that has ended. The caller holds mu.
func (r *Recorder) summary() Summary {
	s := Summary{
		Start: r.start, Plan: r.plan, Seconds: r.seconds, Distribution: map[string][]Quantile{},
		All: Stretch{Took: r.took, Figures: r.all.Figures()},
	}
	left := r.took
	for i, phase := range r.plan {
		took := min(phase.Duration, left)
		left -= took
		s.Phases = append(s.Phases, Stretch{Name: phase.Name, Took: took, Figures: r.phases[i].Figures()})
	}
	for _, kind := range slices.Sorted(maps.Keys(r.kinds)) {
		s.Kinds = append(s.Kinds, Stretch{Name: kind, Took: r.took, Figures: r.kinds[kind].Figures()})
		s.Distribution[kind] = r.kinds[kind].distribution()
	}
	return s
}
