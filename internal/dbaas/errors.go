package dbaas

import (
	"errors"
	"fmt"
	"time"
)

// Code classifies an error by what the caller can do about it.
type Code string

// The codes. internal/httpapi turns each into one HTTP status.
const (
	CodeOK           Code = ""
	CodeInvalid      Code = "invalid"       // the caller must change the request
	CodeConstraint   Code = "constraint"    // a key, unique, foreign key or check constraint refused the write
	CodeNotFound     Code = "not_found"     // the thing named does not exist
	CodeConflict     Code = "conflict"      // clashes with the current state, or the same key is still running
	CodeMismatch     Code = "mismatch"      // the operation's id was used for another operation
	CodeExpired      Code = "expired"       // too late: it did not run now, and whether it ran before is no longer known
	CodeTooLarge     Code = "too_large"     // over a size limit
	CodeIncomplete   Code = "incomplete"    // certainly not done, the request did not arrive completely in time; safe to retry
	CodeUnavailable  Code = "unavailable"   // certainly not done, no worker can do it now; safe to retry
	CodeQuota        Code = "quota"         // certainly not done, the user has used up its share; safe to retry later
	CodeNotCaughtUp  Code = "not_caught_up" // the worker did not reach the wanted position in time
	CodeUnknown      Code = "unknown"       // handed over, outcome not known; retry with the same key
	CodeTimeout      Code = "timeout"       // a read was not answered in time
	CodeUnauthorized Code = "unauthorized"  // credentials missing or wrong
	CodeForbidden    Code = "forbidden"     // refused because of the sender's role, or of how the request was sent
	CodeStaleEpoch   Code = "stale_epoch"   // a newer master exists
	CodeGone         Code = "gone"          // the log no longer has it; take a snapshot
	CodeDamaged      Code = "damaged"       // its bytes were corrupted on persdb's disk; take a snapshot
	CodeFull         Code = "full"          // persdb's disk is full
	CodeAgain        Code = "again"         // certainly not run, the batch had no room for it; the master commits it again
	CodeSlow         Code = "slow"          // certainly not run, it took longer than others may wait; the master commits it alone
	CodeInternal     Code = "internal"      // a bug or a disk; details only in the log
)

// Error is an error with a code and a message that is safe to show to a client.
type Error struct {
	Code    Code
	Message string
	// Op is set when the outcome of a write is not known.
	Op OpID
	// Reason names the bound that refused the request, "" if none did.
	Reason string
	// RetryAfter is how long the caller should wait before it tries again; zero if that is not known.
	RetryAfter time.Duration
	Err        error // the cause, for the log only
}

// Errorf returns an *Error whose message is formatted and safe to show.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// WrapError returns an *Error with a safe message and err as its cause.
func WrapError(code Code, message string, err error) *Error {
	return &Error{Code: code, Message: message, Err: err}
}

func (e *Error) Error() string {
	if e.Err != nil {
		return e.Message + ": " + e.Err.Error()
	}
	return e.Message
}

func (e *Error) Unwrap() error { return e.Err }

// Is makes errors.Is match any two *Error of the same code, so that a caller
// can branch with errors.Is(err, dbaas.ErrStaleEpoch) whichever layer made it.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code
}

// Sentinels for callers that branch on a code.
var (
	// ErrStaleEpoch is returned to a master whose epoch is no longer the newest.
	ErrStaleEpoch = &Error{Code: CodeStaleEpoch, Message: "a newer master exists"}
	// ErrGone is returned when the log has been trimmed past the requested position.
	ErrGone = &Error{Code: CodeGone, Message: "the log no longer has this position, take a snapshot"}
	// ErrUnavailable is returned when certainly nothing was done and a retry is safe.
	ErrUnavailable = &Error{Code: CodeUnavailable, Message: "unavailable"}
	// ErrUnreachable is wrapped in an error when the called party certainly received nothing of the call. It proves
	// nothing about what the call refers to, such as whether a worker lives.
	ErrUnreachable = errors.New("not reached")
	// ErrUnknown is returned when a write was handed over and its outcome is not known.
	ErrUnknown = &Error{Code: CodeUnknown, Message: "outcome not known"}
)

// CodeOf returns the code of the first *Error that err wraps, CodeOK for nil
// and CodeInternal for any other error.
func CodeOf(err error) Code {
	if err == nil {
		return CodeOK
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return CodeInternal
}
