package load

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"rideshare/bench/loadgen"
	"rideshare/bench/scene"
)

// from returns a random number.
func from(low, high int) int { return low + rand.IntN(high-low+1) } //nolint:gosec // A load, not a secret.

// day200k is a load of one day: 32 threads with 1,000 rides each; when the first has ended, 200 more share the rest.
func (p *play) day200k(day int) loadgen.Config {
	return loadgen.Config{Call: p.send(p.anyRide(day)), Stages: []loadgen.Stage{
		{Name: "32 threads", Clients: 32, Requests: p.Scaled(32_000)},
		{Name: "200 threads", Clients: 200, Requests: p.Scaled(168_000), Start: 1.0 / 32},
	}}
}

// anyRide makes a ride of one of 100,000 skiers.
func (p *play) anyRide(day int) func(int) ride {
	return func(int) ride { return ride{p.resort, day, from(1, 100_000), from(1, 40), from(1, 360)} }
}

func fullDays(ctx context.Context, p *play) {
	for text := range strings.SplitSeq(cmp.Or(p.settings.days, fmt.Sprint(from(1, 366))), ",") {
		day, err := strconv.Atoi(text)
		if err != nil {
			p.Fail(ctx, fmt.Errorf("--days: %w", err))
			return
		}
		p.Load(ctx, "day "+text, p.day200k(day), nil)
		if all := p.Last().All; all.Failed > 0 {
			p.Wrong("day %d has %d rides, and %d more were sent", day, all.Count-all.Failed, all.Failed)
		}
	}
}

func skiers20k(ctx context.Context, p *play) {
	n := p.settings.threads
	times := [][2]int{{1, 90}, {91, 360}, {361, 420}}
	stages := []loadgen.Stage{
		{Name: "start", Clients: n / 4, Requests: p.Scaled(40_000)},
		{Name: "peak", Clients: n, Requests: p.Scaled(120_000), Start: 0.2},
		{Name: "cooldown", Clients: max(1, n/10), Requests: p.Scaled(20_000), Start: 0.2},
	}
	p.Load(ctx, "180k", loadgen.Config{Stages: stages, Call: p.send(func(stage int) ride {
		return ride{p.resort, 1, from(1, 20_000), from(1, 40), from(times[stage][0], times[stage][1])}
	})}, nil)
}

func kill(ctx context.Context, p *play) {
	p.keys = true
	p.Load(ctx, "day 1", p.day200k(1), scene.Kills(p.Scaled(32_000)+p.Scaled(168_000)))
}

// breaker plays days under presets of the breaker. An answer after the deadline of the service is a timeout here, and wrong.
func breaker(ctx context.Context, p *play) {
	p.API.Timeout = p.settings.deadline + time.Second // for the transfer of the answer
	for _, preset := range []string{"2000-2s", "7500-5s", "10000-5s"} {
		if err := p.Protection.Patch(ctx, map[string]any{"event_breaker": map[string]any{"preset": preset}}); err != nil {
			p.Fail(ctx, err)
			return
		}
		for _, p.rest = range []time.Duration{0, time.Second} {
			p.Load(ctx, fmt.Sprintf("%s, pause %v", preset, p.rest), p.day200k(from(1, 366)), nil)
		}
	}
}

// reads asks three queries after three days, and counts where the answers came from.
func reads(ctx context.Context, p *play) {
	p.settings.days = "1,2,3"
	fullDays(ctx, p)
	requests := p.Scaled(64_000)
	for name, format := range map[string]string{
		"day vertical":    "/skiers/%[1]d/seasons/2025/days/%[2]d/skiers/%[3]d",
		"season vertical": "/skiers/%[3]d/vertical?resort=%[1]d&season=2025",
		"unique skiers":   "/resorts/%[1]d/seasons/2025/day/%[2]d/skiers",
	} {
		path := func() string { return fmt.Sprintf(format, p.resort, from(1, 3), from(1, 1000)) }
		var mu sync.Mutex // guards asked and levels
		asked, levels := map[string]bool{}, map[string]int{}
		call := func(ctx context.Context, _ loadgen.Request) loadgen.Outcome {
			question := path()
			r := p.get(ctx, question)
			mu.Lock()
			defer mu.Unlock()
			asked[question] = true
			levels[r.Header.Get("X-Cache")]++
			return loadgen.Outcome{Kind: name, Failure: r.Failure(http.StatusOK)}
		}
		p.get(ctx, path()) // Equal reads share an answer once the cache knows that the statement has answers to keep.
		p.Load(ctx, name, loadgen.Config{Stages: []loadgen.Stage{{Name: name, Clients: 128, Requests: requests}}, Call: call}, nil)
		p.Note("%s: %d different questions, answers by X-Cache: %v", name, len(asked), levels)
		cached := levels["HIT"] + levels["FLIGHT"] + levels["MISS"] + levels["BYPASS"]
		// In a short scene a pause of the machine may cause more misses.
		again := p.Scale >= 1 && levels["MISS"] > len(asked)
		if cached > 0 && ctx.Err() == nil && (cached != requests || again) { // Without a cache there are no levels.
			p.Wrong("%s: %d answers have a level, and %d came from a worker for %d questions", name, cached, levels["MISS"], len(asked))
		}
	}
}

// queryable sends a ride and asks until it is seen. A sync one must be seen by the first GET.
func queryable(ctx context.Context, p *play) {
	for day, kind := range []string{"sync", "async"} {
		call := func(ctx context.Context, n loadgen.Request) loadgen.Outcome {
			one := ride{p.resort, 1 + day, 1 + n.Number, 7, 1}
			posted := p.post(ctx, one, kind, map[string][]string{"async": {"Prefer", "respond-async"}}[kind]...)
			position := map[string][]string{"sync": {"X-Min-Seq", fmt.Sprint(p.seq)}}
			for tries := 1; posted.Failure == "" && string(p.get(ctx, one.path(), position[kind]...).Body) != "70\n"; tries++ {
				if kind == "sync" || tries == 10_000 {
					p.Wrong("%s: %+v was not seen", kind, one)
					break
				}
			}
			return posted
		}
		p.Load(ctx, kind, loadgen.Config{Stages: []loadgen.Stage{{Name: kind, Clients: 1, Requests: p.Scaled(1000)}}, Call: call}, nil)
	}
	p.Note("The figures are the time from the POST until the ride was seen.")
}

// sweep doubles the rate until the service cannot follow.
func sweep(ctx context.Context, p *play) {
	took := max(300*time.Millisecond, time.Duration(float64(30*time.Second)*p.Scale))
	for step := range 8 {
		rate := 500 * p.Scale * float64(int(1)<<step)
		name := fmt.Sprintf("%g/s", rate)
		plan := loadgen.Plan{{Name: name, Duration: took, From: rate, To: rate}}
		p.Load(ctx, name, loadgen.Config{Plan: plan, Loop: loadgen.Open, MaxInFlight: 4096, Call: p.send(p.anyRide(1 + step))}, nil)
		sum := p.Last()
		good := float64(sum.All.Count - sum.All.Failed)
		if step == 0 && good < 0.98*float64(sum.All.Count) {
			p.Wrong("less than 98 %% were answered at the lowest rate")
		}
		if share := good / float64(sum.All.Count+sum.Unsent); share < 0.98 || ctx.Err() != nil {
			p.Note("The knee is at %s: %.0f %% were answered.", name, 100*share)
			break
		}
	}
}
