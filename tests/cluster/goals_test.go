package cluster

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	// readGoal is the time within which reads may fail.
	readGoal = 2 * time.Second
	// writeGoal is the longest time without an acknowledged write. silentGoal is the same for a host that is paused or cut off with the
	// master or a leader: the others notice that only by its silence.
	writeGoal, silentGoal = 5 * time.Second, 15 * time.Second
	// allowance is by what factor a goal must be missed for the test to fail. The client and all hosts share the machine's cores with
	// whatever else runs there, and that alone may miss a goal. What is broken takes longer, or never comes back.
	allowance = 3
)

// writeGoal returns the longest time without an acknowledged write that the loss may take.
func (o outcome) writeGoal() time.Duration {
	silent := o.Kind == string(pause) || o.Kind == string(cut)
	if silent && slices.ContainsFunc([]string{"master", "rabbitmq", "postgres", "zookeeper"}, o.leads) {
		return silentGoal
	}
	return writeGoal
}

// missed returns the goals that the loss has missed.
func (o outcome) missed() []string {
	return o.above(func(goal time.Duration) time.Duration { return goal })
}

// broken returns the goals that the loss has missed by more than a busy machine explains. When the client stood still, so did the
// hosts, and perhaps more than once.
func (o outcome) broken() []string {
	return o.above(func(goal time.Duration) time.Duration { return allowance * (goal + o.Stood) })
}

// above returns what took longer than the limit of its goal.
func (o outcome) above(limit func(goal time.Duration) time.Duration) []string {
	var above []string
	if most := limit(o.writeGoal()); o.Writes > most {
		above = append(above, fmt.Sprintf("no write was acknowledged for %s, want at most %s", seconds(o.Writes), seconds(most)))
	}
	if most := limit(readGoal); o.readsFail() > most {
		above = append(above, fmt.Sprintf("reads failed for %s, want at most %s", seconds(o.readsFail()), seconds(most)))
	}
	return above
}

// Each kind of loss has the goals of CLUSTER.md, and only a multiple of them fails the test.
func TestGoals(t *testing.T) {
	for name, test := range map[string]struct {
		o             outcome
		goal, failsAt time.Duration // of the writes
	}{
		"host killed":                {outcome{Kind: "kill", Led: []string{"postgres", "rabbitmq", "zookeeper", "master"}}, 5 * time.Second, 15 * time.Second},
		"master paused":              {outcome{Kind: "pause", Led: []string{"master"}}, 15 * time.Second, 45 * time.Second},
		"master cut off":             {outcome{Kind: "cut", Led: []string{"persdb", "master"}}, 15 * time.Second, 45 * time.Second},
		"broker's leader paused":     {outcome{Kind: "pause", Led: []string{"rabbitmq"}}, 15 * time.Second, 45 * time.Second},
		"database's leader cut off":  {outcome{Kind: "cut", Led: []string{"postgres"}}, 15 * time.Second, 45 * time.Second},
		"coordinator's leader cut":   {outcome{Kind: "cut", Led: []string{"zookeeper"}}, 15 * time.Second, 45 * time.Second},
		"other leaders paused":       {outcome{Kind: "pause", Led: []string{"persdb", "orchestrator"}}, 5 * time.Second, 15 * time.Second},
		"no leader cut off":          {outcome{Kind: "cut"}, 5 * time.Second, 15 * time.Second},
		"leader killed alone":        {outcome{Kind: "leader", Led: []string{"rabbitmq"}}, 5 * time.Second, 15 * time.Second},
		"client that stood still 1s": {outcome{Kind: "kill", Stood: time.Second}, 5 * time.Second, 18 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			for _, above := range []time.Duration{0, 1} {
				o := test.o
				o.Writes = test.goal + above
				wantGoals(t, "missed", o.missed(), above > 0, "no write")
				o.Writes = test.failsAt + above
				wantGoals(t, "broken", o.broken(), above > 0, "no write")
			}
		})
	}
	for name, reads := range map[string]func(time.Duration) outcome{
		"while the host is away": func(d time.Duration) outcome { return outcome{Kind: "kill", During: d} },
		"after its return":       func(d time.Duration) outcome { return outcome{Kind: "leader", Returning: d} },
	} {
		t.Run(name, func(t *testing.T) {
			for _, above := range []time.Duration{0, 1} {
				wantGoals(t, "missed", reads(2*time.Second+above).missed(), above > 0, "reads failed")
				wantGoals(t, "broken", reads(6*time.Second+above).broken(), above > 0, "reads failed")
			}
		})
	}
	both := outcome{Kind: "kill", Writes: time.Hour, During: time.Hour}
	if got := both.broken(); len(got) != 2 {
		t.Errorf("writes and reads: got %q, want two goals", got)
	}
}

// wantGoals fails the test unless there is one goal, whose text begins with what, or none.
func wantGoals(t *testing.T, which string, got []string, want bool, what string) {
	t.Helper()
	if want != (len(got) == 1) || want != strings.HasPrefix(strings.Join(got, ""), what) || !want && len(got) > 0 {
		t.Errorf("%s: got %q, want a goal %q: %t", which, got, what, want)
	}
}
