// Package sqlbody turns the request bodies of the database routes into dbaas.Statements: the structured form of db/read
// and db/write, and the SQL form of /db/query, /db/execute and /db/request. On the data path it comes right after the
// HTTP body is read; later steps do not see the body's JSON.
//
// The package does not check whether a table or a column exists; SQLite does. Names are quoted, so that they can only
// be names, and values are bound. Bodies of the same shape give the same SQL text, whatever the order of their fields,
// so that prepared statements are reused.
package sqlbody

import "rideshare/internal/dbaas"

func invalid(format string, args ...any) *dbaas.Error {
	return dbaas.Errorf(dbaas.CodeInvalid, format, args...)
}
