package sqlite

import (
	"runtime"
	"slices"

	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"
)

// Session records which rows of the application's tables change on a connection,
// until it is closed. Failed and undone statements leave nothing in it.
type Session struct {
	c    *Conn
	p    uintptr
	skip []string
	pin  runtime.Pinner
}

// NewSession starts recording, but for internal tables and the tables in skip.
// The caller closes it.
func (c *Conn) NewSession(skip ...string) (*Session, error) {
	if rc := lib.Xsqlite3session_create(c.tls, c.db, c.mainName, c.out); rc != lib.SQLITE_OK {
		return nil, c.failure(rc)
	}
	s := &Session{c: c, p: *ref[uintptr](c.out), skip: skip}
	s.pin.Pin(s)
	*ref[int32](c.out) = 1
	lib.Xsqlite3session_object_config(c.tls, s.p, lib.SQLITE_SESSION_OBJCONFIG_SIZE, c.out)
	lib.Xsqlite3session_table_filter(c.tls, s.p, callback(onSessionTable), address(s))
	if rc := lib.Xsqlite3session_attach(c.tls, s.p, 0); rc != lib.SQLITE_OK {
		s.Close()
		return nil, c.failure(rc)
	}
	return s, nil
}

// onSessionTable is called once for each table that changes; 1 records it.
func onSessionTable(_ *libc.TLS, arg, name uintptr) int32 {
	s, table := ref[Session](arg), libc.GoString(name)
	if Internal(table) || slices.Contains(s.skip, table) {
		return 0
	}
	return 1
}

// Changeset returns what was recorded so far, nil if nothing is different.
func (s *Session) Changeset() ([]byte, error) {
	c := s.c
	if rc := lib.Xsqlite3session_changeset(c.tls, s.p, c.out+outFirst, c.out+outSecond); rc != lib.SQLITE_OK {
		return nil, c.failure(rc)
	}
	size, data := *ref[int32](c.out + outFirst), *ref[uintptr](c.out + outSecond)
	defer lib.Xsqlite3_free(c.tls, data)
	return append([]byte(nil), view(data, int(size))...), nil
}

// Size returns an upper bound of the changeset's bytes, at little cost.
func (s *Session) Size() int64 { return lib.Xsqlite3session_changeset_size(s.c.tls, s.p) }

// Close ends the recording. It can be called twice.
func (s *Session) Close() {
	if s.p == 0 {
		return
	}
	lib.Xsqlite3session_delete(s.c.tls, s.p)
	s.p = 0
	s.pin.Unpin()
}
