package dbaas

import (
	"io"
	"time"
)

// Backup is the application's tables at one position, as a file or as SQL text. The reader closes Body. A Body that
// ends with an error is incomplete.
type Backup struct {
	Head Head
	Body io.ReadCloser
}

// BackupForm selects the form and the contents of a backup.
type BackupForm struct {
	// SQL asks for text instead of a database file.
	SQL bool
	// Tables are the tables to include in the text; nil means all.
	Tables []string
}

// LoadMode says how persdb runs the only statement of an operation.
type LoadMode uint8

const (
	// LoadNone is the mode of an operation that is not a load.
	LoadNone LoadMode = iota
	// LoadText makes the statement a text of many statements, which all take effect or none. See Operation.Load.
	LoadText
	// LoadReplace drops all tables and then does the same as LoadText. It is refused with CodeConflict if a table has a
	// row.
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
