package apicount_test

import (
	"testing"

	"rideshare/internal/testkit/testenv"
)

// A closed counter leaves no goroutine behind.
func TestMain(m *testing.M) { testenv.NoLeaksMain(m) }
