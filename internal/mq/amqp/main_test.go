package amqp_test

import (
	"testing"

	"go.uber.org/goleak"
)

// No test leaves a goroutine behind, whatever state its broker was in.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
