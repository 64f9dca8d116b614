package loadgen

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Phase is a part of a plan in which the level changes linearly from From to To.
type Phase struct {
	Name     string        `json:"name"`
	Duration time.Duration `json:"duration_ns"`
	// From and To are requests per second in an open loop, clients in a closed one.
	From float64 `json:"from"`
	To   float64 `json:"to"`
}

// Plan is a sequence of phases.
type Plan []Phase

// errEmptyPlan is returned for a plan without a phase.
var errEmptyPlan = errors.New("the plan has no phase")

// ParsePlan reads phases such as "ramp 60s 0-500; steady 2m 500": a name, a duration, and either one level or the first
// and last level of a linear change. The error says which phase is wrong, and gives the form of a phase.
func ParsePlan(text string) (Plan, error) {
	var plan Plan
	for part := range strings.SplitSeq(text, ";") {
		if strings.TrimSpace(part) == "" {
			continue
		}
		phase, err := parsePhase(part)
		if err != nil {
			return nil, fmt.Errorf("phase %q: %w; a phase is NAME DURATION LEVEL or NAME DURATION FROM-TO, as in \"ramp 60s 0-500\"", strings.TrimSpace(part), err)
		}
		plan = append(plan, phase)
	}
	if len(plan) == 0 {
		return nil, errEmptyPlan
	}
	return plan, nil
}

func parsePhase(text string) (Phase, error) {
	fields := strings.Fields(text)
	if len(fields) != 3 {
		return Phase{}, fmt.Errorf("%d words instead of 3", len(fields))
	}
	duration, err := time.ParseDuration(fields[1])
	if err != nil || duration <= 0 {
		return Phase{}, fmt.Errorf("%q is not a positive duration", fields[1])
	}
	first, last, changing := strings.Cut(fields[2], "-")
	if !changing {
		last = first
	}
	phase := Phase{Name: fields[0], Duration: duration}
	for _, level := range []struct {
		text string
		to   *float64
	}{{first, &phase.From}, {last, &phase.To}} {
		*level.to, err = strconv.ParseFloat(level.text, 64)
		if err != nil || !(*level.to >= 0 && *level.to <= maxLevel) { // written so that NaN is refused.
			return Phase{}, fmt.Errorf("%q is not a level between 0 and %d", level.text, maxLevel)
		}
	}
	return phase, nil
}

// maxLevel is far beyond what one machine sends, and keeps the arithmetic exact.
const maxLevel = 1_000_000

// Duration is the length of all phases together.
func (p Plan) Duration() time.Duration {
	var sum time.Duration
	for _, phase := range p {
		sum += phase.Duration
	}
	return sum
}

// At returns the phase and the level at a time since the start. After the end it returns the last phase and 0.
func (p Plan) At(at time.Duration) (index int, level float64) {
	for i, phase := range p {
		if at < phase.Duration {
			return i, phase.From + (phase.To-phase.From)*float64(at)/float64(phase.Duration)
		}
		at -= phase.Duration
	}
	return len(p) - 1, 0
}

// Peak is the highest level of the plan.
func (p Plan) Peak() float64 {
	peak := 0.0
	for _, phase := range p {
		peak = max(peak, phase.From, phase.To)
	}
	return peak
}

// amount is how many requests become due in the phase, in an open loop.
func (p Phase) amount() float64 { return (p.From + p.To) / 2 * p.Duration.Seconds() }

// when returns the time since the start of the phase at which amount requests
// have become due: the inverse of the level's integral.
func (p Phase) when(amount float64) time.Duration {
	if amount <= 0 {
		return 0
	}
	slope := (p.To - p.From) / p.Duration.Seconds()
	// The solution of From*t + slope*t*t/2 = amount in the form that stays exact for small slopes.
	root := math.Sqrt(max(0, p.From*p.From+2*slope*amount))
	seconds := 2 * amount / (p.From + root)
	return min(p.Duration, time.Duration(seconds*float64(time.Second)))
}
