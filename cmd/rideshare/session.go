package main

import (
	"time"

	"rideshare/internal/coord/zookeeper"
)

// With a session shorter than minSession a busy machine is mistaken for a dead one. A session longer than maxSession is
// of no use, and ZooKeeper would not grant it.
const (
	minSession = 2 * time.Second
	maxSession = time.Minute
)

// sessionSetting is the session length at ZooKeeper. ${session} is zookeeper.DefaultSessionTimeout.
type sessionSetting struct {
	Session time.Duration `default:"${session}" env:"RIDESHARE_SESSION" help:"ZooKeeper session timeout of workers and orchestrators, 2s to 60s. A worker that is cut off from ZooKeeper for this long is replaced; hung workers are noticed sooner (HUNG_AFTER). The server may adjust it to its own bounds, at least 2 of its ticks. Set the same value for all parts (${default})."`
}

// checkSession returns an error for an invalid length.
func (s sessionSetting) checkSession() error {
	if s.Session < minSession || s.Session > maxSession {
		return usagef("--session: %v is not between %v and %v", s.Session, minSession, maxSession)
	}
	return nil
}

// refuseSession returns an error if the command line has another length than the default in a mode where it would have no
// effect. The environment may have a length, for other commands.
func (s sessionSetting) refuseSession(out *output, because string) error {
	if out.given("--session") && s.Session != zookeeper.DefaultSessionTimeout {
		return usagef("--session: %v would change nothing: %s", s.Session, because)
	}
	return nil
}
