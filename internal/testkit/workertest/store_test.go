package workertest_test

import (
	"testing"

	_ "modernc.org/sqlite" // the driver of storetest's witness

	"rideshare/internal/testkit/storetest"
	"rideshare/internal/testkit/workertest"
)

// The store that tests put between worker and persdb keeps persdb's guarantees.
func TestStore_Suite(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Store {
		t.Helper()
		return workertest.NewStore(t)
	})
}
