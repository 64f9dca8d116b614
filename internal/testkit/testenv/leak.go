package testenv

import (
	"testing"
	"time"

	"go.uber.org/goleak"
)

// leakLimit bounds the wait for goroutines that are ending. goleak itself waits for less than half a second.
const leakLimit = time.Minute

// NoLeaks fails the test if goroutines stay, as goleak.VerifyNone does, but only after leakLimit.
func NoLeaks(tb testing.TB, options ...goleak.Option) {
	tb.Helper()
	if err := leaks(options...); err != nil {
		tb.Error(err)
	}
}

// NoLeaksMain is the TestMain of a package, as goleak.VerifyTestMain is, but it fails only after leakLimit.
func NoLeaksMain(m *testing.M) { goleak.VerifyTestMain(patientMain{m}) }

// patientMain are tests that end once their goroutines have ended, or leakLimit after the last of them.
type patientMain struct{ *testing.M }

// Run implements goleak.TestingM.
func (m patientMain) Run() int {
	code := m.M.Run()
	if code == 0 {
		_ = leaks() // goleak reports what is left.
	}
	return code
}

// leaks repeats goleak.Find until no goroutine is left or leakLimit has passed. Find waits between its own attempts.
func leaks(options ...goleak.Option) error {
	for deadline := time.Now().Add(leakLimit); ; {
		late := time.Now().After(deadline)
		if err := goleak.Find(options...); err == nil || late {
			return err
		}
	}
}
