package replication_test

import "rideshare/internal/replication"

// writes is the guard of statements that write.
var writes = replication.WriteGuard(nil)
