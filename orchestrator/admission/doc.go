// Package admission protects the orchestrator from overload: it bounds the requests that wait or are in flight, and
// shares the room between users.
package admission
