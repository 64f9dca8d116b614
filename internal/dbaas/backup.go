package dbaas

import (
	"io"
	"time"
)

// Backup is the application's tables at one position, as a file or as SQL text. The reader closes
// Body. A Body that ends with an error is not whole.
type Backup struct {
	Head Head
	Body io.ReadCloser
}

// BackupForm says what a backup is.
type BackupForm struct {
	// SQL asks for text instead of a database file.
	SQL bool
	// Tables are the only tables that the text has; nil means all.
	Tables []string
}

// LoadMode says how persdb runs the only statement of an operation.
type LoadMode uint8

const (
	// LoadNone is the mode of an operation that is no load.
	LoadNone LoadMode = iota
	// LoadText makes the statement a text of many, which all take effect or none. See
	// Operation.Load.
	LoadText
	// LoadReplace is LoadText after all tables were dropped, unless a table has a row: that is
	// CodeConflict.
	LoadReplace
)

// LoadGrace is how long before its deadline a load must end, so that its answer reaches the caller.
const LoadGrace = 5 * time.Second

// MaxLoad is the longest text of a load, and the largest file that is turned into one, in bytes.
const MaxLoad = 64 << 20

// CommitTime returns how long a commit of the operations may take: usual, or until the deadline of
// a load among them if that is longer.
func CommitTime(usual time.Duration, ops []Operation, now time.Time) time.Duration {
	for i := range ops {
		if ops[i].Load != LoadNone {
			usual = max(usual, ops[i].Deadline.Sub(now))
		}
	}
	return usual
}
