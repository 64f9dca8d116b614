package overload

import (
	"context"
	"errors"
	"fmt"
	"time"

	"rideshare/bench/ladder"
	"rideshare/system"
)

// The figures of N3.
const (
	costClients, costRounds, costRows = 128, 5, 100_000
	costDuration, briefly             = 1200 * time.Millisecond, 250 * time.Millisecond
)

// playCost plays scene N3: the ladder with the protection on and off.
func playCost(ctx context.Context, s *stage) error {
	on, off := "batched-guarded", "batched-unguarded"
	env := s.cfg.Environment
	if s.cfg.Start == StartEmbedded {
		on, off, env = "embedded-guarded", "embedded-unguarded", ladder.Environment{}
	}
	works := []string{"point-read", "point-read-once"} // from the cache, and past it
	cfg := ladder.Config{
		Environment: env, Works: works, Paths: []string{on, off}, Loops: []string{"closed"}, Clients: []int{costClients},
		Duration: costDuration, Rounds: costRounds, Rows: costRows, Seed: 1, Progress: s.cfg.Progress,
	}
	if s.cfg.Short {
		cfg.Clients, cfg.Duration, cfg.Rounds, cfg.Rows = []int{4}, briefly, 1, 1000
	}
	report, err := ladder.Run(ctx, cfg)
	if err != nil && !errors.Is(err, ladder.ErrInvalid) {
		return err
	}
	s.result.Ladder = report
	for _, row := range report.Rows {
		s.result.check(row.Work+" on "+row.Path+": wrong answers or refusals", int(row.Errors), 0)
	}
	for _, work := range works {
		ratio, measured := report.Ranges[work+"/"+on+"/"+off]
		if measured && !s.cfg.Short {
			s.result.atLeast(fmt.Sprintf("%s: rate with all stages / without, median of %d rounds (%.3f-%.3f)", work, cfg.Rounds, ratio.Lowest, ratio.Highest), ratio.Median, ladder.GuardedShare)
		}
	}
	return nil
}

const (
	// failoverRounds is how often N6 measures with and without the protection, in turn, each with a part of the kills.
	failoverRounds = 2
	// longer is the allowed ratio of the median with the protection to the median without. Two equal runs differ as much.
	longer         = 1.1
	failoverSlaves = 2
	failoverRate   = 200 // writes a second, and as many reads
)

// playFailover plays scene N6: kills of masters with the protection on and off.
func playFailover(ctx context.Context, s *stage) error {
	rounds := min(failoverRounds, s.cfg.Kills)
	refused, gap := map[bool]int{}, map[bool]float64{}
	for round := range rounds {
		for _, off := range []bool{false, true} {
			cfg := ladder.FailoverConfig{
				Mode: ladder.FailoverKill, Kills: s.cfg.Kills / rounds, Slaves: failoverSlaves, Writes: failoverRate, Reads: failoverRate, Unguarded: off, Progress: s.cfg.Progress,
			}
			if s.cfg.Start == StartProcess {
				name := fmt.Sprintf("scene-n6-%d-%d-%v", time.Now().UnixNano(), round, off)
				cfg.Processes = &system.Processes{Bus: s.cfg.Environment.Bus, Coordinator: s.cfg.Environment.Coordinator + "/" + name, Prefix: name + ".", LogLevel: "error"}
			}
			report, err := ladder.Failover(ctx, cfg)
			if judged := errors.Is(err, ladder.ErrWrong) || errors.Is(err, ladder.ErrNotBack); err != nil && !judged || errors.Is(err, ladder.ErrNotCompared) {
				return err
			}
			refused[off] += report.Writes.Refused + report.Reads.Refused
			gap[off] += report.Gap.P50 / float64(rounds)
			s.result.failover(fmt.Sprintf("round %d, protection %s: ", round+1, onOff(off)), report)
		}
	}
	if !s.cfg.Short {
		s.result.check("refused with the protection, at most as many as without", refused[false], refused[true])
		s.result.atMost("median time without an acknowledgement, ms (without the protection, and a tenth for chance)", gap[false], longer*gap[true])
	}
	return nil
}

// failover judges a run with kills.
func (r *Result) failover(run string, report *ladder.FailoverReport) {
	r.Failover = append(r.Failover, report)
	r.check(run+"writes lost or doubled", report.Lost+report.Doubled, 0)
	r.check(run+"refused writes that were done all the same", report.Unasked, 0)
	r.check(run+"kills after which writes did not come back", report.NotBack(), 0)
}

func onOff(off bool) string {
	if off {
		return "off"
	}
	return "on"
}
