// Package scale adapts the number of slaves to the load. Every period it measures the window
// that ended, asks a policy how many slaves are needed, and writes that number; the control
// loop then starts or stops slaves. DESIGN.md has the rules of the policies and what happens
// when a process dies in between.
package scale

import "fmt"

// Proposal is the number of slaves that a policy wants, with the reason.
type Proposal struct {
	Policy string `json:"policy"`
	Wanted int    `json:"wanted"`
	Why    string `json:"why"`
}

// Policy decides how many slaves are needed. It is a pure function of its arguments: no
// clock, no broker, no engine.
type Policy interface {
	// Name is the value of SCALE_POLICY.
	Name() string
	// Propose returns a proposal from the sample of the window that ended and the samples before,
	// oldest first. Wanted is within the limits of the policy.
	Propose(now Sample, before []Sample) Proposal
}

// Limits bounds the number of slaves. Both bounds are inclusive.
type Limits struct {
	Min, Max int
}

func (l Limits) bound(n int) int { return max(l.Min, min(n, l.Max)) }

// Reads wants one slave for every PerSlave reads of the window, whatever the other metrics
// are. It scales in at the first quiet window.
type Reads struct {
	PerSlave int // reads of a window that one slave serves
	Limits
}

// Name implements Policy.
func (Reads) Name() string { return "reads" }

// Propose implements Policy. An exact multiple of PerSlave does not add a slave:
// with PerSlave 20, 20 reads need 1 and 21 need 2.
func (p Reads) Propose(now Sample, _ []Sample) Proposal {
	needed := now.Reads / p.PerSlave
	if now.Reads%p.PerSlave > 0 {
		needed++
	}
	return Proposal{
		Policy: p.Name(), Wanted: p.bound(needed),
		Why: fmt.Sprintf("%d reads, %d for each slave, between %d and %d slaves", now.Reads, p.PerSlave, p.Min, p.Max),
	}
}
