package sqlite

import (
	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"
)

// The engine uses temporary files for sorting and for undoing a statement, once that would take too much memory. The
// meter counts these files like memory.

func onTempWrite(tls *libc.TLS, file, from uintptr, n int32, at int64) int32 {
	f, m := ownPartOf(file), meterOf(tls)
	if more := at + int64(n) - f.counted; m != nil && more > 0 {
		if !m.take(more) {
			return lib.SQLITE_FULL
		}
		f.counted += more
	}
	rc := writeThrough(tls, file, from, n, at)
	if rc&primaryMask == lib.SQLITE_FULL && m != nil && m.running {
		m.stop = tooLarge // the disk for temporary files has less room than the statement's budget.
	}
	return rc
}

func onTempClose(tls *libc.TLS, file uintptr) int32 {
	f := ownPartOf(file)
	if m := meterOf(tls); m != nil {
		m.give(f.counted)
	}
	return goFunction[func(*libc.TLS, uintptr) int32](f.methods.FxClose)(tls, file)
}
