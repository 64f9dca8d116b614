// Package api is the orchestrator's HTTP surface: the course's routes (db/read,
// db/write, db/clear, crash/*, worker/list), the SQL form that speaks rqlite's
// HTTP API, and what operators look at. It checks bodies and options, makes reads
// and operations of them, and renders what comes back; dispatch does the rest.
//
// A client's Idempotency-Key is good for as long as persdb keeps its log (one
// hour or a million operations by default, never less than a minute). Within that
// time the same key with the same body gets the first answer again; after it
// the key is forgotten and the same request is a new one.
package api
