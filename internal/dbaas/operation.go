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
	// IssuedAt is when the operation was accepted, by the clock of who accepted
	// it. persdb refuses an operation that is older than the answers it still
	// has, since it could no longer tell whether it has run.
	IssuedAt time.Time
	// Deadline is when the caller stops waiting; the zero time means never. A
	// master does not start an operation after it.
	Deadline time.Time
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
// failed; then Message is safe to show to a client.
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
	// that persdb can no longer tell whether it has run, or that it came past its deadline and did not run.
	Code       Code
	Message    string
	Statements []StatementResult
}
