package dbaas

import "time"

// NamedValue is the value of one named parameter. Name comes without its
// prefix (":", "@" or "$").
type NamedValue struct {
	Name  string
	Value Value
}

// Statement is one SQL statement with its parameters: either Args, by position,
// or Named.
type Statement struct {
	SQL   string
	Args  []Value
	Named []NamedValue
}

// Fingerprint tells two operations with the same id apart.
type Fingerprint [16]byte

// Operation is one write as a client sent it.
type Operation struct {
	ID          OpID
	Fingerprint Fingerprint
	// SeenSeq is a position that the log had when the operation was accepted: it can only have run in
	// an entry after that. persdb refuses an operation whose SeenSeq is below what the log still has,
	// since it could no longer tell whether it has run.
	SeenSeq Seq
	// Deadline is when the caller stops waiting; the zero time means never. A
	// master does not start an operation after it. Frames carry the time that is left.
	Deadline time.Time
	// Resent says that the operation may have been sent before, in another message.
	Resent bool
	// GiveUp, if not empty, makes persdb store a failure with this text instead of running the
	// statements. An operation that has run keeps its result, which is the answer then too.
	GiveUp string
	// Atomic makes several statements hold together: the first failure undoes
	// them all. Otherwise each statement stands by itself.
	Atomic     bool
	Statements []Statement
	// RequestID is the caller's request id, for the logs.
	RequestID string
}

// Row is one row of a result, in the order of StatementResult.Columns.
type Row []Value

// StatementResult is what one statement did. Code is CodeOK or says why it
// failed; then Message is safe to show to a client. A Message with CodeOK says why a statement that is done has no rows.
type StatementResult struct {
	Code         Code
	Message      string
	LastInsertID int64
	RowsAffected int64
	// Columns, Types and Rows are filled by statements that return rows.
	Columns []string
	Types   []string
	Rows    []Row
}

// OperationResult is the answer to one operation, as persdb stores it. The same
// operation always gets the same result, however often it comes.
type OperationResult struct {
	ID OpID
	// Seq is the entry that holds the operation; zero if it was refused.
	Seq Seq
	// Code is CodeOK when the operation ran, even if a statement of it failed.
	// CodeMismatch means that the id belongs to another operation, CodeExpired
	// that persdb can no longer tell whether it has run, CodeUnavailable that it surely did not
	// run, CodeAgain and CodeSlow that it did not run yet.
	Code       Code
	Message    string
	Statements []StatementResult
}
