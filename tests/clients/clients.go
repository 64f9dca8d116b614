// Package clients pins the versions of the clients of other projects that tests/e2e runs against the SQL API:
// gorqlite with its own tests, and the tools of go.mod, which are rqlite's shell and rqbench. They have a module of their
// own so that the product depends on none of them. gorqlite and rqlite are under the MIT licence.
package clients

import (
	_ "github.com/rqlite/gorqlite"        // tested by its own tests, used by docs/CLIENTS.md
	_ "github.com/rqlite/gorqlite/stdlib" // its driver for database/sql
)
