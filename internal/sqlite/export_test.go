package sqlite

import (
	"rideshare/internal/dbaas"

	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"
)

// Kept returns how many client statements c keeps.
func Kept(c *Conn) int { return len(c.guarded) }

// Pragmas are the statements that Open runs.
func (o Options) Pragmas() []string { return o.pragmas() }

// HighWater returns the most that a client's statement on c has held, in bytes.
func HighWater(c *Conn) int64 { return c.meter.high }

// FailAbove lets every allocation of a client's statement on c fail that would make it hold more than n bytes.
func FailAbove(c *Conn, n int64) {
	c.limits.Memory = 1 << 20
	c.meter.most = n - reserveBytes
}

// Next binds n to the only parameter if first is set, and steps once; the row, if there is one, stays.
func Next(s *Stmt, first bool, n int64) (bool, error) {
	if first {
		if err := s.bind([]dbaas.Value{dbaas.Integer(n)}); err != nil {
			return false, err
		}
	}
	return s.step()
}

// Reset ends a statement that Next began.
func Reset(s *Stmt) { s.reset() }

var blocked <-chan struct{}

func onBlock(tls *libc.TLS, ctx uintptr, _ int32, _ uintptr) {
	<-blocked
	lib.Xsqlite3_result_int(tls, ctx, 1)
}

// DefineBlock makes a function block() on c that does not return before release is closed.
func DefineBlock(c *Conn, release <-chan struct{}) error {
	blocked = release
	name, err := cstring(c.tls, "block")
	if err != nil {
		return err
	}
	defer libc.Xfree(c.tls, name)
	if rc := lib.Xsqlite3_create_function_v2(c.tls, c.db, name, 0, lib.SQLITE_UTF8, 0, callback(onBlock), 0, 0, 0); rc != lib.SQLITE_OK {
		return c.failure(rc)
	}
	return nil
}
