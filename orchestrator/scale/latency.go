package scale

import (
	"fmt"
	"math"
	"time"
)

// Latency keeps the slaves so busy that reads hardly wait: as many slaves as bring
// each of busy time and reads in flight to its target, and one more while reads
// wait too long. It is the rule of Kubernetes' HorizontalPodAutoscaler,
// desired = ceil(current * value / target), the largest of several metrics, with its
// tolerance, its limit for one step out and its stabilisation window, and two
// additions: one step in at a time, and none to a number that was too few for no
// more load. Source: kubernetes.io, "Horizontal Pod Autoscaling", Algorithm details
// and Configurable scaling behavior.
type Latency struct {
	Limits
	// Busy is the wanted part of the slaves' places in use: 0.6, since waiting
	// grows steeply from about there (M/M/c).
	Busy float64
	// InFlight is the wanted number of reads under way for each slave: 32, what
	// one message of a busy system holds.
	InFlight float64
	// QueueAge is how long a read may wait before it leaves: 5 ms, the time after
	// which the dispatcher itself counts a message as slow.
	QueueAge time.Duration
	// Tolerance is how far value and target may be apart before anything changes: 0.1.
	Tolerance float64
	// Stabilise is for how many windows, this one included, fewer slaves must have been
	// enough before one leaves: 3, which are 5 minutes at the default period.
	Stabilise int
	// MaxLag is how many entries a slave may be behind before the policy waits: 1000.
	MaxLag uint64
}

// NewLatency returns the policy with its defaults.
func NewLatency(l Limits) Latency {
	return Latency{
		Limits: l, Busy: 0.6, InFlight: 32, QueueAge: 5 * time.Millisecond, Tolerance: 0.1, Stabilise: 3, MaxLag: 1000,
	}
}

// Name implements Policy.
func (Latency) Name() string { return "latency" }

// Propose implements Policy. It holds, that is, it wants what was wanted, while it
// cannot judge: something is missing, slaves are still starting, or replicas lag.
func (p Latency) Propose(now Sample, before []Sample) Proposal {
	wanted, why := p.decide(now, before)
	return Proposal{Policy: p.Name(), Wanted: p.bound(wanted), Why: why + "; " + now.describe()}
}

func (p Latency) decide(now Sample, before []Sample) (wanted int, why string) {
	if why = p.unfit(now); why != "" {
		return now.Desired, "hold: " + why
	}
	n, needed := now.Slaves, p.needed(now)
	if needed > n {
		// As HPA's default: at most double, or four more, at once.
		return min(needed, max(2*n, n+4)), fmt.Sprintf("out: %d slaves needed", needed)
	}
	for _, s := range p.stabilising(before) {
		if p.unfit(s) != "" {
			return n, "hold: an earlier window could not be judged"
		}
		needed = max(needed, p.needed(s))
	}
	switch {
	case needed >= n:
		return n, fmt.Sprintf("hold: %d slaves needed within %d windows", needed, p.Stabilise)
	case p.wasTooFew(n-1, now, before):
		return n, fmt.Sprintf("hold: %d slaves were too few for no more reads", n-1)
	default:
		return n - 1, fmt.Sprintf("in: %d slaves were enough for %d windows, one leaves at a time", needed, p.Stabilise)
	}
}

// unfit says why a sample cannot be judged, "" if it can.
func (p Latency) unfit(s Sample) string {
	switch {
	case !s.complete():
		return "metrics are missing"
	case s.Slaves == 0:
		return "no slave serves"
	case s.Slaves < s.Desired:
		return fmt.Sprintf("%d of %d slaves serve", s.Slaves, s.Desired)
	case s.Lag > p.MaxLag:
		return "replicas lag"
	default:
		return ""
	}
}

// needed is how many slaves the load of s needs, without regard to other windows.
func (p Latency) needed(s Sample) int {
	n := float64(s.Slaves)
	exact := max(n*s.Busy/p.Busy, s.InFlight/p.InFlight)
	needed := int(math.Ceil(min(exact, float64(math.MaxInt32))))
	if math.Abs(exact/n-1) <= p.Tolerance {
		needed = s.Slaves
	}
	if p.slow(s) {
		needed = max(needed, s.Slaves+1)
	}
	return max(needed, 1)
}

func (p Latency) slow(s Sample) bool { return s.QueueAge.Duration() > p.QueueAge }

// stabilising returns the windows before this one that must agree to fewer slaves.
func (p Latency) stabilising(before []Sample) []Sample {
	return before[max(0, len(before)-(p.Stabilise-1)):]
}

// wasTooFew reports whether n slaves let reads wait too long in a window that had
// no more of them than this one. Without it a number that busy time alone allows and
// waiting forbids would be tried again and again.
func (p Latency) wasTooFew(n int, now Sample, before []Sample) bool {
	for _, s := range before {
		load := float64(s.Reads) * (1 - p.Tolerance)
		if p.unfit(s) == "" && s.Slaves <= n && p.slow(s) && load <= float64(now.Reads) {
			return true
		}
	}
	return false
}
