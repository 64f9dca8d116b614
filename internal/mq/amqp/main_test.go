package amqp_test

import (
	"testing"

	"rideshare/internal/testkit/testenv"
)

// No test leaves a goroutine behind, whatever state its broker was in.
func TestMain(m *testing.M) { testenv.NoLeaksMain(m) }
