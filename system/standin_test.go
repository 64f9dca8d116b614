package system_test

import (
	"testing"

	"rideshare/internal/testkit/dbtest"
)

// The tests of users and rides have dbtest.DB in place of the orchestrator. Both pass one suite.
func TestOrchestrator_Suite(t *testing.T) { dbtest.Run(t, startSystem(t).URLs().Orchestrator) }
