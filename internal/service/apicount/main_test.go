package apicount_test

import (
	"testing"

	"go.uber.org/goleak"
)

// A closed counter leaves no goroutine behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
