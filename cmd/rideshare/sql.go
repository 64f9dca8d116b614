package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"rideshare/internal/sqlite"
)

// sqlLimits holds the settings of every part that opens databases, or starts one that does.
type sqlLimits struct {
	SQLMemory        byteSize `name:"sql-memory" default:"128MiB" env:"SQL_MEMORY" help:"Most that one statement may hold: engine memory, temporary files and results, in bytes or with KiB, MiB or GiB (${default})."`
	SQLMemoryAll     byteSize `name:"sql-memory-all" default:"192MiB" env:"SQL_MEMORY_ALL" help:"Memory limit of all statements of a process together; beyond it the largest statement is ended (${default})."`
	SQLMaxValue      byteSize `name:"sql-max-value" default:"64MiB" env:"SQL_MAX_VALUE" help:"Longest text, blob or row (${default})."`
	SQLMaxLength     byteSize `name:"sql-max-length" default:"8MiB" env:"SQL_MAX_LENGTH" help:"Longest text of a statement (${default})."`
	SQLMaxParameters int      `name:"sql-max-parameters" default:"32766" env:"SQL_MAX_PARAMETERS" help:"Most parameters of a statement (${default})."`
	SQLMaxDepth      int      `name:"sql-max-depth" default:"1000" env:"SQL_MAX_DEPTH" help:"How deep an expression may be nested (${default})."`
	SQLMaxAnswer     byteSize `name:"sql-max-answer" default:"64MiB" env:"SQL_MAX_ANSWER" help:"Largest answer of a read; that of a write is 32MiB at most (${default})."`
	SQLMaxRows       int      `name:"sql-max-rows" default:"0" env:"SQL_MAX_ROWS" help:"Most rows that a statement returns; 0: no limit (${default})."`
}

// writeTimes holds the time limits of writes, for the commands that run persdb.
type writeTimes struct {
	SQLWriteTime     time.Duration `default:"2s" env:"SQL_WRITE_TIME" help:"Longest time of one write statement (${default})."`
	SQLOperationTime time.Duration `default:"3s" env:"SQL_OPERATION_TIME" help:"Longest time of all statements of a write, at most 4s; other writes wait in the meantime (${default})."`
}

// check returns all problems with the times. A commit that takes twice the operation's time must end before the master
// retries it.
func (w writeTimes) check() error {
	var errs []error
	if w.SQLOperationTime <= 0 || w.SQLOperationTime > 4*time.Second {
		errs = append(errs, usagef("SQL_OPERATION_TIME: %v is not more than 0 and at most 4s", w.SQLOperationTime))
	}
	if w.SQLWriteTime <= 0 || w.SQLWriteTime > w.SQLOperationTime {
		errs = append(errs, usagef("SQL_WRITE_TIME: %v is not more than 0 and at most SQL_OPERATION_TIME", w.SQLWriteTime))
	}
	return joinUsage(errs...)
}

// byteSize is a number of bytes, such as 1024, 64KiB, 128MiB or 1GiB.
type byteSize int64

// UnmarshalText reads a size.
func (b *byteSize) UnmarshalText(text []byte) error {
	number, shift := string(text), 0
	for i, unit := range []string{"KiB", "MiB", "GiB"} {
		if s, ok := strings.CutSuffix(number, unit); ok {
			number, shift = s, 10*(i+1)
			break
		}
	}
	n, err := strconv.ParseInt(number, 10, 32)
	if err != nil && shift == 0 {
		n, err = strconv.ParseInt(number, 10, 64)
	}
	if err != nil || n < 1 {
		return fmt.Errorf("%q is no size such as 1048576, 64KiB, 128MiB or 1GiB", text)
	}
	*b = byteSize(n << shift)
	return nil
}

// limits returns the limits, or an error for invalid settings.
func (s sqlLimits) limits() (sqlite.Limits, error) {
	const mostValue = 1_000_000_000 // the engine's own limit
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, usagef(format, args...))
		}
	}
	check(s.SQLMaxParameters >= 1 && s.SQLMaxParameters <= 32_766, "SQL_MAX_PARAMETERS: %d is not between 1 and 32766", s.SQLMaxParameters)
	check(s.SQLMaxDepth >= 1 && s.SQLMaxDepth <= 1_000, "SQL_MAX_DEPTH: %d is not between 1 and 1000", s.SQLMaxDepth)
	check(s.SQLMaxRows >= 0, "SQL_MAX_ROWS: %d is negative", s.SQLMaxRows)
	check(s.SQLMemory >= 1<<20, "SQL_MEMORY: %d bytes are less than 1MiB", s.SQLMemory)
	check(s.SQLMemoryAll >= 1<<20, "SQL_MEMORY_ALL: %d bytes are less than 1MiB", s.SQLMemoryAll)
	for _, l := range []struct {
		name string
		size byteSize
	}{{"SQL_MAX_VALUE", s.SQLMaxValue}, {"SQL_MAX_LENGTH", s.SQLMaxLength}, {"SQL_MAX_ANSWER", s.SQLMaxAnswer}} {
		check(l.size <= mostValue, "%s: %d bytes are more than the engine's %d", l.name, l.size, mostValue)
	}
	return sqlite.Limits{
		Memory: int64(s.SQLMemory), MemoryAll: int64(s.SQLMemoryAll), Value: int(s.SQLMaxValue), Length: int(s.SQLMaxLength),
		Parameters: s.SQLMaxParameters, Depth: s.SQLMaxDepth, Answer: int(s.SQLMaxAnswer), Rows: s.SQLMaxRows,
	}, joinUsage(errs...)
}
