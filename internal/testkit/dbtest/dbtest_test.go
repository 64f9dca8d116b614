package dbtest_test

import (
	"testing"

	_ "modernc.org/sqlite" // The driver of dbtest.

	"rideshare/internal/testkit/dbtest"
)

func TestDB_Suite(t *testing.T) { dbtest.Run(t, dbtest.New(t).URL) }
