package scale

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// Latency keeps the slaves busy while reads hardly wait: it wants as many slaves as bring
// busy time and reads in flight to their targets, and one more while reads wait too long.
//
// It follows Kubernetes' HorizontalPodAutoscaler: desired = ceil(current * value / target),
// the largest over several metrics, with its tolerance, its limit for one step out and its
// stabilisation window. Two rules are added: it scales in by one slave at a time, and never to a
// number of slaves that was too few for the same load or less. Source: kubernetes.io,
// "Horizontal Pod Autoscaling", Algorithm details and Configurable scaling behavior.
type Latency struct {
	Limits
	// Busy is the target for the fraction of the slaves' slots in use: 0.6, since waiting
	// time grows steeply from about there (M/M/c).
	Busy float64
	// InFlight is the target for the number of reads in flight per slave: 32, as many as one
	// message of a busy system holds.
	InFlight float64
	// QueueAge is how long a read may wait before it is sent: 5 ms, the time after which
	// the dispatcher counts a message as stale.
	QueueAge time.Duration
	// Tolerance is how far value/target may differ from 1 before anything changes: 0.1.
	Tolerance float64
	// Stabilise is the number of windows, including the present one, in which fewer slaves must have been
	// enough before a slave is removed: 3, which is 6 minutes at the default period.
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

// Propose implements Policy. It holds, that is, it keeps the wanted number, while it cannot
// judge the load: metrics are missing, slaves are still starting, or replicas lag.
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
		// HPA's default: in one step at most double, or four more, whichever is larger.
		return min(needed, max(2*n, n+4)), "out: needed slaves: " + strconv.Itoa(needed)
	}
	for _, s := range p.stabilising(before) {
		if p.unfit(s) != "" {
			return n, "hold: an earlier window could not be judged"
		}
		needed = max(needed, p.needed(s))
	}
	switch {
	case needed >= n:
		return n, fmt.Sprintf("hold: needed slaves within %d windows: %d", p.Stabilise, needed)
	case p.wasTooFew(n-1, now, before):
		return n, fmt.Sprintf("hold: %d slaves were too few before, for no more reads than now", n-1)
	default:
		return n - 1, fmt.Sprintf("in: needed slaves within %d windows: %d; one leaves at a time", p.Stabilise, needed)
	}
}

// unfit returns why a sample cannot be judged, or "" if it can.
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

// needed returns how many slaves the load of s needs, regardless of other windows.
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

// stabilising returns the earlier windows in which fewer slaves must also have been enough before a slave is removed.
func (p Latency) stabilising(before []Sample) []Sample {
	return before[max(0, len(before)-(p.Stabilise-1)):]
}

// wasTooFew reports whether, in an earlier window with no more reads than this one, reads waited too
// long with n slaves or fewer. Without wasTooFew, a number of slaves that is enough by busy time but
// makes reads wait would be tried again and again.
func (p Latency) wasTooFew(n int, now Sample, before []Sample) bool {
	for _, s := range before {
		load := float64(s.Reads) * (1 - p.Tolerance)
		if p.unfit(s) == "" && s.Slaves <= n && p.slow(s) && load <= float64(now.Reads) {
			return true
		}
	}
	return false
}
