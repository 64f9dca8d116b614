package system

import (
	"rideshare/internal/dbclient"
	"rideshare/internal/telemetry"
)

// ClientMetrics returns the metric of the retries of calls to the orchestrator, by outcome, summed over clients.
func ClientMetrics(clients ...*dbclient.Client) telemetry.Sampled {
	return telemetry.Sampled{
		Name: "rideshare_client_retries_total", Labels: []string{"outcome"},
		Help: "Second and third attempts of calls to the orchestrator, by outcome: answered, failed, or not made because of no_budget (there were too many), no_time (the deadline comes first) or broken (the last attempts all failed; these are first attempts too).",
		Read: func(emit func(float64, ...string)) {
			var sum dbclient.Outcomes
			for _, c := range clients {
				o := c.Outcomes()
				sum.Answered += o.Answered
				sum.Failed += o.Failed
				sum.NoBudget += o.NoBudget
				sum.NoTime += o.NoTime
				sum.Broken += o.Broken
			}
			emit(float64(sum.Answered), "answered")
			emit(float64(sum.Failed), "failed")
			emit(float64(sum.NoBudget), "no_budget")
			emit(float64(sum.NoTime), "no_time")
			emit(float64(sum.Broken), "broken")
		},
	}
}
