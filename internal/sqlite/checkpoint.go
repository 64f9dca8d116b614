package sqlite

import (
	"time"

	lib "modernc.org/sqlite/lib"
)

// Stop ends the statement that runs on c, and each that is run before Resume, with CodeTimeout. Unlike c's
// other methods it may be called by any goroutine, while c is open.
func (c *Conn) Stop() { c.stopped.Store(true) }

// Resume takes Stop back.
func (c *Conn) Resume() { c.stopped.Store(false) }

// Checkpoint brings the WAL into the file and empties it. It waits so long for readers who need the WAL; done is false if some still
// do then. c waits as a new connection does afterwards. No transaction may be open on c.
func (c *Conn) Checkpoint(wait time.Duration) (done bool, err error) {
	lib.Xsqlite3_busy_timeout(c.tls, c.db, int32(wait/time.Millisecond)) //nolint:gosec // a few seconds.
	defer lib.Xsqlite3_busy_timeout(c.tls, c.db, int32(defaultBusyTimeout/time.Millisecond))
	err = c.Query("PRAGMA wal_checkpoint(TRUNCATE)", func(r Row) error {
		done = r.Int(0) == 0
		return nil
	})
	return done, err
}
