// Package scale makes the number of slaves follow the load: every period it
// looks at the window that ended, lets a policy say how many slaves are needed,
// and writes that number, which the control loop then brings about. DESIGN.md has
// the rules of the policies and what happens when a process dies in between.
package scale

import "fmt"

// Proposal is what a policy would do, and why.
type Proposal struct {
	Policy string `json:"policy"`
	Wanted int    `json:"wanted"`
	Why    string `json:"why"`
}

// Policy says how many slaves are needed. It is a pure function of what it is
// given: no clock, no broker, no engine.
type Policy interface {
	// Name is the value of SCALE_POLICY.
	Name() string
	// Propose looks at the window that ended and at those before, oldest first.
	// Wanted is within the limits of the policy.
	Propose(now Sample, before []Sample) Proposal
}

// Limits bounds the number of slaves, both included.
type Limits struct {
	Min, Max int
}

func (l Limits) bound(n int) int { return max(l.Min, min(n, l.Max)) }

// Reads wants one slave for every PerSlave reads of the window, and nothing else
// counts. It scales in at the first quiet window.
type Reads struct {
	PerSlave int // reads in one window that one slave serves
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
