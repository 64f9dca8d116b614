package dbaas

import "time"

// NamedValue is the value of one named parameter. Name comes without its
// prefix (":", "@" or "$"). Without a Name it is the value of a parameter by position.
type NamedValue struct {
	Name  string
	Value Value
}

// Statement is a text of SQL with its parameters: either Args, by position, or Named, where each value has a place in
// the list, with or without a name. The text may hold several statements: they take effect together or not at all, and
// the result is the result of the last one.
type Statement struct {
	SQL   string
	Args  []Value
	Named []NamedValue
}

// Fingerprint distinguishes two operations with the same id.
type Fingerprint [16]byte

// Operation is one write as a client sent it.
type Operation struct {
	ID          OpID
	Fingerprint Fingerprint
	// SeenSeq is a position that the log had reached when the operation was accepted: the operation can only have run
	// in a later entry. persdb refuses an operation whose SeenSeq is below the oldest position still in the log,
	// because it could no longer tell whether the operation has run.
	SeenSeq Seq
	// Cluster is the cluster of SeenSeq. A persdb of another cluster does not run the operation. Zero is not compared.
	Cluster ClusterID
	// Deadline is when the caller stops waiting; zero means never. A master does not start an operation after its
	// deadline. Frames carry the remaining time.
	Deadline time.Time
	// Resent says that the operation may have been sent before, in another message.
	Resent bool
	// GiveUp, if not empty, makes persdb store a failure with this text instead of running the statements. An
	// operation that has already run keeps its result, and persdb answers with that.
	GiveUp string
	// Atomic makes the statements all succeed or all fail: the first failure rolls them all back. Otherwise each
	// statement succeeds or fails independently.
	Atomic bool
	// Load, if set, makes the operation a load: its only statement is a text of any number of statements without
	// parameters. They take effect together, and foreign keys are checked at their end. The result is the result of the
	// last statement, or of the statement that failed. The time limit is LoadGrace before Deadline.
	Load LoadMode
	// StatementTime bounds each statement in addition to persdb's own limit; zero: only persdb's limit.
	StatementTime time.Duration
	// QualifyColumns names the columns of results "table.column".
	QualifyColumns bool
	Statements     []Statement
	// RequestID is the caller's request id, for the logs.
	RequestID string
	// User is as in Read.
	User string
}

// Row is one row of a result, in the order of StatementResult.Columns.
type Row []Value

// StatementResult is the result of one statement. If Code is not CodeOK, the statement failed and Message is safe to
// show to a client. A Message with CodeOK explains why a successful statement has no rows.
type StatementResult struct {
	Code         Code
	Message      string
	LastInsertID int64
	RowsAffected int64
	// Columns, Types and Rows are filled by statements that return rows. Types are the declared types, in lower case, ""
	// for expressions.
	Columns []string
	Types   []string
	Rows    []Row
}

// OperationResult is the answer to one operation, as persdb stores it. Resending the operation always gets the same
// result.
type OperationResult struct {
	ID OpID
	// Seq is the entry that holds the operation; zero if it was refused.
	Seq Seq
	// Code is CodeOK when the operation ran, even if one of its statements failed. Other codes:
	//   - CodeMismatch: the id belongs to another operation
	//   - CodeExpired: persdb can no longer tell whether the operation has run
	//   - CodeUnavailable: it certainly did not run
	//   - CodeAgain and CodeSlow: it has not run yet
	Code       Code
	Message    string
	Statements []StatementResult
}
