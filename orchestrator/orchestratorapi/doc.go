// Package orchestratorapi is the orchestrator's HTTP surface: the course's routes (db/read,
// db/write, db/clear, crash/*, worker/list), the SQL form, which implements rqlite's
// HTTP API, and the routes for operators. It checks bodies and options, turns them
// into reads and operations, and renders the results; dispatch does the rest.
//
// A client's Idempotency-Key is valid for as long as persdb keeps its log: one hour, a million
// operations or 1 GiB by default; at least a minute, unless the log exceeds twice its bytes. Within
// that time the same key with the same body gets the first answer again. After that time the key is
// forgotten, and the same request counts as a new request.
package orchestratorapi
