package sqlite

import (
	"cmp"

	lib "modernc.org/sqlite/lib"
)

// Limits bounds what one statement of a client may use. A statement that exceeds a limit fails alone, with CodeTooLarge
// unless documented otherwise, and its connection stays usable. The system's own statements have no limits. A zero field
// means its default.
type Limits struct {
	// Memory bounds the memory of one statement in bytes: the engine's memory, temporary files and results; 128 MiB if
	// zero. The connection's page cache, Options.CacheBytes, is not included.
	Memory int64
	// MemoryAll bounds the memory of all statements of the process together in bytes; 192 MiB if zero. When it is
	// exceeded, the largest statement is ended with CodeUnavailable, because a retry may succeed after the others have
	// ended. It also bounds each single statement.
	MemoryAll int64
	// Value is the longest text, blob or row, in bytes; 64 MiB if zero.
	Value int
	// Length is the longest text of a statement, in bytes; 8 MiB if zero.
	Length int
	// Parameters is the largest number of parameters of a statement; 32,766 if zero, which is also the maximum.
	Parameters int
	// Depth is the deepest nesting of an expression; 1,000 if zero, which is also the maximum.
	Depth int
	// Answer is the largest size of one read's answer, in bytes; 64 MiB if zero.
	Answer int
	// Rows is the largest number of rows that a statement may return; no limit if zero.
	Rows int
}

const (
	defaultMemory     = 128 << 20
	defaultMemoryAll  = 192 << 20
	defaultValue      = 64 << 20
	defaultLength     = 8 << 20
	defaultParameters = 32_766 // the engine's own limit
	defaultDepth      = 1_000  // the engine's own limit
	defaultAnswer     = 64 << 20
	// engineValue is the engine's own limit for a value, in bytes. The system's statements have no lower limit, because
	// they carry values that clients' statements made, on replicas too.
	engineValue = 1_000_000_000
)

// WithDefaults returns l with the default in place of every zero.
func (l Limits) WithDefaults() Limits {
	l.MemoryAll = cmp.Or(l.MemoryAll, defaultMemoryAll)
	l.Memory = min(cmp.Or(l.Memory, defaultMemory), l.MemoryAll)
	l.Value = cmp.Or(l.Value, defaultValue)
	l.Length = cmp.Or(l.Length, defaultLength)
	l.Parameters = cmp.Or(l.Parameters, defaultParameters)
	l.Depth = cmp.Or(l.Depth, defaultDepth)
	l.Answer = cmp.Or(l.Answer, defaultAnswer)
	return l
}

// bound sets one of the engine's limits.
func (c *Conn) bound(id int32, n int) {
	lib.Xsqlite3_limit(c.tls, c.db, id, int32(min(n, engineValue)))
}

// bounds are the engine's limits that are different for clients' statements.
type bounds struct{ value, parameters, depth int }

// boundValues sets the engine's limits: the configured ones for statements under guard, the engine's highest without a
// guard. The system's own statements have values that clients' statements made elsewhere, perhaps under higher limits.
func (c *Conn) boundValues(guard Guard) {
	b := bounds{engineValue, defaultParameters, defaultDepth}
	if guard != nil {
		b = bounds{c.limits.Value, c.limits.Parameters, c.limits.Depth}
	}
	if b == c.bounded {
		return
	}
	c.bounded = b
	c.bound(lib.SQLITE_LIMIT_LENGTH, b.value)
	c.bound(lib.SQLITE_LIMIT_VARIABLE_NUMBER, b.parameters)
	c.bound(lib.SQLITE_LIMIT_EXPR_DEPTH, b.depth)
}

// boundAll sets the engine's limits for all statements of a new connection.
func (c *Conn) boundAll() {
	c.boundValues(nil)
	c.bound(lib.SQLITE_LIMIT_WORKER_THREADS, 0) // a thread of the engine's own would not be metered.
}

// WithLength runs fn. During fn the text of a client's statement may have length bytes instead of Limits.Length.
func (c *Conn) WithLength(length int, fn func() error) error {
	before := c.limits.Length
	c.limits.Length = length
	defer func() { c.limits.Length = before }()
	return fn()
}
