package dbaas

import (
	"errors"
	"time"
)

// The values of Error.Reason: the overload protections that may refuse a request, in the order in which a request
// passes them. Clients see them, and metrics count by them.
const (
	ReasonInflight     = "inflight"
	ReasonUserInflight = "user_inflight"
	ReasonUserRate     = "user_rate"
	ReasonClassRate    = "class_rate"
	ReasonEventBreaker = "event_breaker"
	ReasonDepthBreaker = "depth_breaker"
	ReasonDepthWait    = "depth_wait"
	ReasonUserQueue    = "user_queue"
	ReasonLaneFull     = "lane_full"
	ReasonUnroutable   = "unroutable"
	ReasonQueueFull    = "queue_full"
	ReasonBroker       = "broker"
	ReasonMaster       = "master"
	ReasonSlaves       = "slaves"
	ReasonDeadline     = "deadline"
)

// ReasonRunning is the reason of a conflict with an earlier request under the same key, which still runs.
const ReasonRunning = "running"

// ReasonNotActive is the reason of a persdb that leaves the log to another one. persdb's client acts on it and does not
// pass it on.
const ReasonNotActive = "not_active"

// ErrNotActive is returned by a persdb that is not the active one: certainly nothing was done.
var ErrNotActive = &Error{Code: CodeUnavailable, Reason: ReasonNotActive, Message: "this persdb is not the active one"}

// IsNotActive reports whether an error is a refusal by a persdb that is not the active one.
func IsNotActive(err error) bool { return ReasonOf(err) == ReasonNotActive }

// Refuse returns the error of a request that was certainly not done, because the protection named by reason refused it.
// retryAfter is the expected wait until it admits the request; zero means that this is not known.
func Refuse(reason string, retryAfter time.Duration, message string) *Error {
	code := CodeUnavailable
	switch reason {
	case ReasonUserInflight, ReasonUserRate, ReasonClassRate, ReasonUserQueue:
		code = CodeQuota
	}
	return &Error{Code: code, Message: message, Reason: reason, RetryAfter: retryAfter}
}

// ReasonOf returns the reason of the first *Error that err wraps, "" if it has none.
func ReasonOf(err error) string {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Reason
	}
	return ""
}
