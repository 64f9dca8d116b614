package sqlite

import lib "modernc.org/sqlite/lib"

// Version is the version of SQLite.
const Version = lib.SQLITE_VERSION
