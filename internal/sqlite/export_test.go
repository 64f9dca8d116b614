package sqlite

import (
	"slices"
	"sync"
	"testing"
	"time"

	"rideshare/internal/dbaas"

	"modernc.org/libc"
	"modernc.org/libc/sys/types"
	lib "modernc.org/sqlite/lib"
)

// WatchEvery is the interval of the watchdog's checks.
const WatchEvery = watchEvery

// Kept returns how many client statements c keeps.
func Kept(c *Conn) int { return len(c.guarded) }

// KeptOwn returns how many of the system's own statements c keeps.
func KeptOwn(c *Conn) int { return len(c.stmts) }

// Own returns one of the system's own statements that c keeps, or nil.
func Own(c *Conn, sql string) *Stmt { return c.stmts[sql] }

// OwnBytes returns the sum of the memory of the system's own statements that c keeps.
func OwnBytes(c *Conn) int64 { return c.own }

// Pragmas are the statements that Open runs.
func (o Options) Pragmas() []string { return o.pragmas() }

// HighWater returns the most that a client's statement on c has held, in bytes.
func HighWater(c *Conn) int64 { return c.meter.high }

// FailAbove lets every allocation of a client's statement on c fail that would make it hold more than n bytes.
func FailAbove(c *Conn, n int64) {
	c.limits.Memory = 1 << 20
	c.meter.most = n - reserveBytes
}

// Watched returns the text of the statement on c that the watchdog sees, "" if it sees none.
func Watched(c *Conn) string {
	if text := c.meter.watched.text.Load(); text != nil {
		return *text
	}
	return ""
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

// ResultFull is the engine's result code for a full disk.
const ResultFull = lib.SQLITE_FULL

// watchedWAL is a WAL whose writes a test sees.
type watchedWAL struct {
	write   func(tls *libc.TLS, file, from uintptr, n int32, at int64) int32 // the default file system's
	methods lib.Tsqlite3_io_methods
	onWrite func(size int, at int64) int32
}

var watchedWALs sync.Map // by the address of the file

func onWatchedWrite(tls *libc.TLS, file, from uintptr, n int32, at int64) int32 {
	v, _ := watchedWALs.Load(file)
	w := v.(*watchedWAL)
	if rc := w.onWrite(int(n), at); rc != lib.SQLITE_OK {
		return rc
	}
	return w.write(tls, file, from, n, at)
}

// OnWALWrite calls onWrite before each write to the WAL of c, which has committed before. A result other than zero
// fails the write.
func OnWALWrite(tb testing.TB, c *Conn, onWrite func(size int, at int64) int32) {
	tb.Helper()
	file := c.frames.file
	part := ownPartOf(file)
	w := &watchedWAL{
		write:   goFunction[func(*libc.TLS, uintptr, uintptr, int32, int64) int32](part.methods.FxWrite),
		methods: *part.methods, onWrite: onWrite,
	}
	w.methods.FxWrite = callback(onWatchedWrite)
	watchedWALs.Store(file, w)
	before := part.methods
	part.methods = &w.methods
	tb.Cleanup(func() {
		part.methods = before
		watchedWALs.Delete(file)
	})
}

// WriteAndRead writes a frame to the WAL of c, which has committed before, as the engine does during a COMMIT, and reads it.
func WriteAndRead(c *Conn, frame []byte, at int64) []byte {
	type transfer func(tls *libc.TLS, file, buf uintptr, n int32, at int64) int32
	file := c.frames.file
	methods := ref[lib.Tsqlite3_io_methods](ref[lib.Tsqlite3_file](file).FpMethods)
	buf := libc.Xmalloc(c.tls, types.Size_t(len(frame)))
	defer libc.Xfree(c.tls, buf)
	copy(view(buf, len(frame)), frame)
	c.frames.begin()
	defer c.frames.end()
	write := goFunction[transfer](methods.FxWrite)
	write(c.tls, file, buf, frameHeader, at)
	write(c.tls, file, buf+frameHeader, PageSize, at+frameHeader)
	clear(view(buf, len(frame)))
	goFunction[transfer](methods.FxRead)(c.tls, file, buf, int32(len(frame)), at)
	return slices.Clone(view(buf, len(frame)))
}

// StuckAfter returns how long after its deadline the watchdog takes a statement for stuck that it has seen since limit
// before the deadline, if the checks come at these intervals and then in time.
func StuckAfter(limit time.Duration, intervals ...time.Duration) time.Duration {
	first := time.Now()
	deadline := first.Add(limit)
	s := sight{limit: limit}
	for now, i := first, 0; ; i++ {
		interval := watchEvery
		if i < len(intervals) {
			interval = intervals[i]
		}
		now = now.Add(interval)
		if s.stuck(now, deadline, interval) {
			return now.Sub(deadline)
		}
	}
}
