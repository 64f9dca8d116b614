// Package statement turns what clients send to the database routes into
// dbaas.Statements: the structured form of db/read and db/write, and the SQL
// form of /db/query, /db/execute and /db/request. It is the first thing after
// the HTTP body on the data path and the last that knows JSON.
//
// Nothing of it decides whether a table or a column exists: names are quoted so
// that they can only be names, values are bound, and SQLite answers the rest.
// Equal shapes give equal SQL text, whatever the order of a client's fields, so
// that prepared statements are found again.
package statement

import "rideshare/internal/dbaas"

// MaxDepth is how deep the JSON of a body may nest. The deepest legal body, a
// blob as an array among the parameters of a statement, has 3 levels.
const MaxDepth = 8

func invalid(format string, args ...any) *dbaas.Error {
	return dbaas.Errorf(dbaas.CodeInvalid, format, args...)
}
