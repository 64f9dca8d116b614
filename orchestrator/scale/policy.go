// Package scale makes the number of slaves follow the number of reads: every
// period it looks at the reads since the last look and writes the wanted number of slaves,
// which the control loop then brings about.
package scale

import "time"

// Policy says how many slaves a window's reads need.
type Policy struct {
	PerSlave int // reads in one window that one slave serves
	Min, Max int // bounds of the result, both included
}

// Desired returns the number of slaves for reads served in the last window.
//
// It is a pure function: no clock, no broker, no engine. An exact multiple of
// PerSlave does not add a slave: with PerSlave 20, 20 reads need 1 and 21
// need 2. The result is always within [Min, Max].
func (p Policy) Desired(reads int) int {
	n := (reads + p.PerSlave - 1) / p.PerSlave
	return max(p.Min, min(n, p.Max))
}

// Decision is what one tick decided, and why.
type Decision struct {
	At     time.Time `json:"at"`
	Policy string    `json:"policy"`
	Reads  int       `json:"reads"`
	Wanted int       `json:"wanted"`
	// Done tells whether the wanted number was written to the coordinator; a
	// decision that was not is overtaken by the next tick's.
	Done bool   `json:"done"`
	Why  string `json:"why"`
}
