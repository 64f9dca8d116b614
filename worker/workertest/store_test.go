package workertest_test

import (
	"testing"

	_ "modernc.org/sqlite" // the driver of storetest's witness

	"rideshare/persdb/commitlog/storetest"
	"rideshare/worker/workertest"
)

// What stands between worker and persdb in tests keeps persdb's promises.
func TestStore_Suite(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Store {
		t.Helper()
		return workertest.NewStore(t)
	})
}
