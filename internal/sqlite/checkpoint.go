package sqlite

import (
	"time"

	lib "modernc.org/sqlite/lib"
)

// Stop interrupts the running statement on c, and every later statement until Resume, with CodeTimeout. Unlike c's
// other methods, any goroutine may call Stop and Resume while c is open.
func (c *Conn) Stop() { c.stopped.Store(true) }

// Resume ends the effect of Stop.
func (c *Conn) Resume() { c.stopped.Store(false) }

// Checkpoint moves the WAL into the file and empties it. It waits up to wait for readers that need the WAL; done is
// false if some still need it then. Afterwards c has the default busy timeout. No transaction may be open on c.
func (c *Conn) Checkpoint(wait time.Duration) (done bool, err error) {
	lib.Xsqlite3_busy_timeout(c.tls, c.db, int32(wait/time.Millisecond))
	defer lib.Xsqlite3_busy_timeout(c.tls, c.db, int32(busyTimeout/time.Millisecond))
	err = c.Query("PRAGMA wal_checkpoint(TRUNCATE)", func(r Row) error {
		done = r.Int(0) == 0
		return nil
	})
	return done, err
}
