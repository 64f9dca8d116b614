// Package logkey holds the keys of structured log lines, so that one search finds the same thing in the logs of every
// part.
package logkey

// The keys. Values are snake_case and never change once released.
const (
	Addr       = "addr"
	Cluster    = "cluster"
	Code       = "code"
	Bytes      = "bytes"
	Connection = "connection"
	Count      = "count"
	Epoch      = "epoch"
	Error      = "error"
	Files      = "files"
	Host       = "host"
	Limit      = "limit"
	Method     = "method"
	Op         = "op"
	Part       = "part"
	Path       = "path"
	PID        = "pid"
	Process    = "process"
	Queue      = "queue"
	Reason     = "reason"
	RequestID  = "request_id"
	Role       = "role"
	Route      = "route"
	Seq        = "seq"
	Service    = "service"
	Session    = "session"
	Status     = "status"
	Took       = "took"
	Trace      = "trace"
	Worker     = "worker"
)
