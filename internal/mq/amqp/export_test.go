package amqp

import "time"

// LeaveLimit is how long a session that is left may still settle deliveries.
const LeaveLimit = leaveLimit

// ErrSilent is the reason for the end of a session whose node is silent.
var ErrSilent = errSilent

// SetSilentLimit sets how long a node of a cluster may send nothing after a request.
func (c *Config) SetSilentLimit(d time.Duration) { c.silentLimit = d }
