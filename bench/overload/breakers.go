package overload

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/wait"
)

// laneFull is the reason of a full lane with one user only.
const laneFull = dbaas.ReasonLaneFull

const (
	// delayPreset is the preset of the event-count breaker that makes writes wait.
	delayPreset = "2000-2s"
	// endless is longer than any stream that ends after a number of requests.
	endless = 365 * 24 * time.Hour
)

// playDelays plays scene N4.
func playDelays(ctx context.Context, s *stage) error {
	if err := s.patch(ctx, "event_breaker", map[string]any{"preset": delayPreset}); err != nil {
		return err
	}
	load := brief("event breaker "+delayPreset, "", workWrite, s.cfg.Clients)
	load.most = int64(s.cfg.Writes)
	got, err := s.measure(ctx, load)
	if err != nil {
		return err
	}
	f := got[0]
	s.result.check("refused", int(f.refused.Count), 0)
	s.result.check("failed, also after the deadline", int(f.failed.Count), 0)
	s.result.check("not sent", s.cfg.Writes-int(f.accepted.Count+f.refused.Count+f.failed.Count), 0)
	if !s.cfg.Short {
		s.result.atMost("slowest accepted, ms (the deadline)", ms(f.accepted.Max), ms(callTimeout))
	}
	return nil
}

// servesAgain judges that closed breakers refuse nothing.
func (s *stage) servesAgain(ctx context.Context) error {
	for _, work := range Works() {
		got, err := s.measure(ctx, brief("closed again", "", work, few))
		if err != nil {
			return err
		}
		s.result.check(work+", closed again: refused or failed", int(got[0].refused.Count+got[0].failed.Count), 0)
	}
	return nil
}

// usage holds samples of one resource that the orchestrator's process uses.
type usage struct {
	name, metric string
	samples      []float64
}

// growth returns the maximum of the second half of the samples, divided by the maximum of the first half.
func (u usage) growth() float64 {
	half := len(u.samples) / 2
	if half == 0 {
		return 0
	}
	first, second := 0.0, 0.0
	for i, v := range u.samples {
		if i < half {
			first = max(first, v)
		} else {
			second = max(second, v)
		}
	}
	return second / first
}

// watchEvery is how often the orchestrator's metrics are read.
const watchEvery = 500 * time.Millisecond

// watch samples the resources of the orchestrator's process until ctx ends, and then sends the samples.
func (s *stage) watch(ctx context.Context) <-chan []usage {
	out := make(chan []usage, 1)
	all := []usage{{name: "goroutines", metric: "go_goroutines"}, {name: "memory", metric: "process_resident_memory_bytes"}}
	go func() { // ends with ctx
		for wait.For(ctx, watchEvery) {
			s.sample(ctx, all)
		}
		out <- all
	}()
	return out
}

func (s *stage) sample(ctx context.Context, all []usage) {
	r := s.client.Send(ctx, http.MethodGet, s.url+"/metrics", nil)
	if r.Failure(http.StatusOK) != "" {
		return
	}
	for lines := bufio.NewScanner(bytes.NewReader(r.Body)); lines.Scan(); {
		name, text, _ := strings.Cut(lines.Text(), " ")
		for i := range all {
			if v, err := strconv.ParseFloat(text, 64); err == nil && name == all[i].metric {
				all[i].samples = append(all[i].samples, v)
			}
		}
	}
}

// served judges that some requests of a stream were accepted.
func (r *Result) served(name string, f figures) {
	r.Checks = append(r.Checks, Check{name + ": accepted", fmt.Sprint(f.accepted.Count), "some", f.accepted.Count > 0})
}
