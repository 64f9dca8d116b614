package sqlite

import (
	"errors"
	"strings"
	"syscall"

	"rideshare/internal/dbaas"

	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"
)

// All errors of this package are *dbaas.Error with SQLite's own message, or its first 4 KiB, unless documented otherwise.
var (
	errNoMemory = &dbaas.Error{Code: dbaas.CodeInternal, Message: "out of memory"}
	errLongText = &dbaas.Error{Code: dbaas.CodeTooLarge, Message: "statement too long"}
	errTooLong  = &dbaas.Error{Code: dbaas.CodeTimeout, Message: "interrupted: the statement took too long"}
)

// ErrDamaged is wrapped in an error when the file is not a sound database, or the disk cannot read it.
var ErrDamaged = errors.New("the database file is damaged")

var errSystem = errors.New("a call of the operating system failed")

func errTooManyRows(limit int) *dbaas.Error {
	return dbaas.Errorf(dbaas.CodeTooLarge, "the answer is over the limit of %d rows", limit)
}

const primaryMask = 0xff

// maxMessage is how many bytes of an engine's message are kept. The engine puts whole values into some of its messages.
const maxMessage = 4 << 10

// shorter returns a message without its end if it is long.
func shorter(message string) string {
	if len(message) <= maxMessage {
		return message
	}
	return strings.ToValidUTF8(message[:maxMessage], "") + "..."
}

// failure returns the error of the last call on this connection, which returned rc. It is never nil. If the disk is the
// cause and not the statement, Err is set: to the syscall.Errno of the call of the operating system that failed, if it is
// known.
func (c *Conn) failure(rc int32) *dbaas.Error {
	// For a refused function the engine returns SQLITE_ERROR, for every other refusal of a guard SQLITE_AUTH.
	if c.denied != nil && (rc&primaryMask == lib.SQLITE_AUTH || rc == lib.SQLITE_ERROR) {
		return c.denied
	}
	if c.meter.stop != goOn && stopped(rc) {
		return c.meter.err()
	}
	switch {
	case rc&primaryMask == lib.SQLITE_INTERRUPT:
		return errTooLong
	case rc&primaryMask == lib.SQLITE_NOMEM || rc == lib.SQLITE_IOERR_NOMEM:
		return errNoMemory
	}
	err := &dbaas.Error{Code: codeOf(rc), Message: shorter(libc.GoString(lib.Xsqlite3_errmsg(c.tls, c.db)))}
	if ofSystem(rc) {
		err.Err = errSystem
		if reason := syscall.Errno(lib.Xsqlite3_system_errno(c.tls, c.db)); reason != 0 {
			err.Err = reason
		}
	}
	if damaged(rc) {
		err.Err = errors.Join(ErrDamaged, err.Err)
	}
	return err
}

// ofSystem reports whether the cause of rc is a call of the operating system that failed.
func ofSystem(rc int32) bool {
	return rc&primaryMask == lib.SQLITE_IOERR || rc&primaryMask == lib.SQLITE_CANTOPEN
}

// damaged reports whether rc is about the contents of the file. SQLITE_CORRUPT_VTAB is about rows that a client may have
// written, and most kinds of SQLITE_IOERR are about locks, memory or temporary files.
func damaged(rc int32) bool {
	switch rc {
	case lib.SQLITE_CORRUPT, lib.SQLITE_CORRUPT_INDEX, lib.SQLITE_CORRUPT_SEQUENCE, lib.SQLITE_NOTADB,
		lib.SQLITE_IOERR_READ, lib.SQLITE_IOERR_DATA, lib.SQLITE_IOERR_CORRUPTFS:
		return true
	default:
		return false
	}
}

// stopped reports whether rc means that a statement ran out of memory, temporary file space or time.
func stopped(rc int32) bool {
	switch rc & primaryMask {
	case lib.SQLITE_NOMEM, lib.SQLITE_FULL, lib.SQLITE_INTERRUPT, lib.SQLITE_IOERR:
		return true
	default:
		return false
	}
}

// codeOf converts a result code of SQLite to a dbaas.Code.
// Source: https://www.sqlite.org/rescode.html
func codeOf(rc int32) dbaas.Code {
	switch rc & primaryMask {
	case lib.SQLITE_CONSTRAINT:
		return dbaas.CodeConstraint
	case lib.SQLITE_ERROR, lib.SQLITE_AUTH, lib.SQLITE_RANGE, lib.SQLITE_MISMATCH, lib.SQLITE_READONLY, lib.SQLITE_MISUSE:
		return dbaas.CodeInvalid
	case lib.SQLITE_TOOBIG:
		return dbaas.CodeTooLarge
	case lib.SQLITE_INTERRUPT:
		return dbaas.CodeTimeout
	case lib.SQLITE_FULL:
		return dbaas.CodeFull
	case lib.SQLITE_BUSY, lib.SQLITE_LOCKED:
		return dbaas.CodeUnavailable
	default:
		return dbaas.CodeInternal
	}
}

// own reports whether an error with this code concerns only the statement: the client must change the statement, and
// nothing else is affected.
func own(code dbaas.Code) bool {
	return code == dbaas.CodeInvalid || code == dbaas.CodeConstraint || code == dbaas.CodeTooLarge
}

// messageOf returns the part of err that a client may see.
func messageOf(err error) string {
	if e, ok := errors.AsType[*dbaas.Error](err); ok {
		return e.Message
	}
	return "internal error"
}
