package instances

import "time"

// The time limits of the pools that New makes. Only tests change them.
var (
	// probeTime is how long a probe may take. A request may take long, a probe never does: an instance that does not answer
	// it is paused, cut off or dead.
	probeTime = time.Second
	// dialTimeout bounds the dial of the only instance, dialTimeoutOfSeveral that of each of several: another one may
	// answer sooner than a host that is cut off.
	dialTimeout          = 2 * time.Second
	dialTimeoutOfSeveral = time.Second
)

// SetProbeTime sets probeTime and both limits of dials for the pools that New makes until restore is called, for tests on
// a machine that may be slower. Neither call may be concurrent with New.
func SetProbeTime(d time.Duration) (restore func()) {
	probe, dial, dialOfSeveral := probeTime, dialTimeout, dialTimeoutOfSeveral
	probeTime, dialTimeout, dialTimeoutOfSeveral = d, d, d
	return func() { probeTime, dialTimeout, dialTimeoutOfSeveral = probe, dial, dialOfSeveral }
}
