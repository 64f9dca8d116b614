package overload

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"rideshare/bench/api"
	"rideshare/bench/loadgen"
	"rideshare/internal/httpapi"
)

// stream is the requests of one user in one stage of a scene.
type stream struct {
	stage, user, work string
	reason            string // "", or the only reason with which an answer counts as kindRefused
	loop              loadgen.Loop
	level             float64 // requests a second, or clients
	length            time.Duration
	most              int64 // the stream ends after this many requests; zero: no such limit
}

// The kinds of answers.
const (
	kindAccepted = "accepted" // 200, and the statement was done
	kindRefused  = "refused"  // 429 or 503: certainly not done
	kindOther    = "other"    // the same, with another reason than the stream's
	kindFailed   = "failed"   // everything else, such as 504, no answer, and 200 with the error of a statement
)

const (
	// maxInFlight bounds the requests of an open loop that are in flight. It is more than the system admits.
	maxInFlight = connections
	// refusedPause is how long a client of a closed loop waits after a refusal.
	refusedPause = 10 * time.Millisecond
)

// figures is the result of a stream. accepted, refused, other, failed and inTime come from its answers.
type figures struct {
	stream
	took                             time.Duration
	accepted, refused, other, failed loadgen.Stretch
	inTime                           int64 // accepted before the end of the stage
	unsent                           int64 // of an open loop: due, and not sent before the end of the stage
}

// rate returns the accepted requests a second. It counts only requests that were accepted before the end of the stage.
func (f figures) rate() float64 { return float64(f.inTime) / f.took.Seconds() }

// measure sends streams concurrently, and returns the figures of each.
func (s *stage) measure(ctx context.Context, streams ...stream) ([]figures, error) {
	if err := s.settle(ctx); err != nil {
		return nil, err
	}
	got := make([]figures, len(streams))
	errs := make([]error, len(streams))
	var all sync.WaitGroup
	for i, one := range streams {
		all.Go(func() { got[i], errs[i] = s.flow(ctx, one) })
	}
	all.Wait()
	for i, f := range got {
		if errs[i] != nil {
			return nil, errs[i]
		}
		s.result.add(f)
		s.say("%s", s.result.Stages[len(s.result.Stages)-1])
	}
	return got, ctx.Err()
}

// flow sends one stream.
func (s *stage) flow(ctx context.Context, one stream) (figures, error) {
	sending, end := context.WithCancel(ctx)
	defer end()
	began := time.Now()
	var inTime, sent atomic.Int64
	recorder := loadgen.NewRecorder()
	summary, err := loadgen.Run(sending, loadgen.Config{
		Loop: one.loop, Plan: loadgen.Plan{{Name: one.stage, Duration: one.length, From: one.level, To: one.level}},
		MaxInFlight: maxInFlight, Recorder: recorder,
		Call: func(ctx context.Context, _ loadgen.Request) loadgen.Outcome {
			if n := sent.Add(1); one.most > 0 && n >= one.most {
				if end(); n > one.most {
					return loadgen.Outcome{Kind: "not sent"}
				}
			}
			o := outcomeOf(s.send(ctx, one.work, one.user))
			if o.Kind == kindRefused && one.reason != "" && o.Failure != one.reason {
				o.Kind = kindOther
			}
			if o.Kind == kindAccepted && (one.most > 0 || time.Since(began) < one.length) {
				inTime.Add(1)
			}
			return o
		},
	})
	if err != nil {
		return figures{}, fmt.Errorf("send the load: %w", err)
	}
	return figuresOf(one, summary, inTime.Load()), nil
}

func figuresOf(one stream, summary loadgen.Summary, inTime int64) figures {
	f := figures{stream: one, took: one.length, inTime: inTime, unsent: summary.Unsent}
	if one.most > 0 {
		f.took = summary.All.Took
	}
	for _, kind := range summary.Kinds {
		switch kind.Name {
		case kindAccepted:
			f.accepted = kind
		case kindRefused:
			f.refused = kind
		case kindOther:
			f.other = kind
		case kindFailed:
			f.failed = kind
		}
	}
	return f
}

// outcomeOf returns the kind of an answer and, unless it was accepted, its reason.
func outcomeOf(r api.Reply) loadgen.Outcome {
	failure := r.Failure(http.StatusOK)
	if wrong(r) {
		failure = "wrong"
	}
	if failure == "" {
		return loadgen.Outcome{Kind: kindAccepted}
	}
	o := loadgen.Outcome{Kind: kindFailed, Failure: failure, Pause: refusedPause}
	if p, err := api.Decode[httpapi.Problem](r); err == nil && p.Reason != "" {
		o.Failure = p.Reason
	}
	if r.Status == http.StatusTooManyRequests || r.Status == http.StatusServiceUnavailable {
		o.Kind = kindRefused
	}
	return o
}
