package main

import (
	"time"

	"rideshare/internal/coord/zookeeper"
)

// Shorter than minSession a busy machine is taken for a dead one; longer than maxSession nobody can want, and
// the server would not keep it.
const (
	minSession = 2 * time.Second
	maxSession = time.Minute
)

// sessionSetting is the length of sessions at ZooKeeper. ${session} is zookeeper.DefaultSessionTimeout.
type sessionSetting struct {
	Session time.Duration `default:"${session}" env:"RIDESHARE_SESSION" help:"How long ZooKeeper keeps the session of a worker or orchestrator that says nothing, 2s to 60s: so long is a hung master unnoticed. Too short, and a slow one is replaced too. The server has the last word: at least 2 of its ticks, at most what it allows. The same for all parts (${default})."`
}

// checkSession returns what is wrong with the length.
func (s sessionSetting) checkSession() error {
	if s.Session < minSession || s.Session > maxSession {
		return usagef("--session: %v is not between %v and %v", s.Session, minSession, maxSession)
	}
	return nil
}

// refuseSession returns an error when another length than the default is set where it would change nothing.
func (s sessionSetting) refuseSession(because string) error {
	if s.Session != zookeeper.DefaultSessionTimeout {
		return usagef("--session: %v would change nothing: %s", s.Session, because)
	}
	return nil
}
