// Package sqlbody turns the request bodies of the database routes into dbaas.Statements: the structured form of
// db/read and db/write, and the SQL form of /db/query, /db/execute and /db/request. On the data path it comes first
// after the HTTP body and is the last that knows JSON.
//
// The package does not decide whether a table or a column exists: names are quoted so that they can only be names,
// values are bound, and SQLite answers the rest. Equal shapes give equal SQL text, in whatever order a client's fields
// come, so that prepared statements are reused.
package sqlbody

import "rideshare/internal/dbaas"

func invalid(format string, args ...any) *dbaas.Error {
	return dbaas.Errorf(dbaas.CodeInvalid, format, args...)
}
