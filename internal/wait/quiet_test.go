package wait_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"rideshare/internal/wait"
)

func TestUntilQuiet(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		outer, cancelOuter := wait.UntilStalled(t.Context(), 3*time.Second)
		defer cancelOuter()
		inner, cancel := wait.UntilStalled(outer, 2*time.Second)
		defer cancel()
		for range 10 {
			time.Sleep(1900 * time.Millisecond)
			wait.ReportProgress(inner)
		}
		if inner.Err() != nil {
			t.Fatalf("ended at %v, want it on while something is heard", time.Since(start))
		}
		<-inner.Done()
		if took := time.Since(start); took != 21*time.Second || !errors.Is(context.Cause(inner), context.DeadlineExceeded) {
			t.Errorf("ended after %v with %v, want 21s and a deadline", took, context.Cause(inner))
		}
		<-outer.Done()
		if took := time.Since(start); took != 22*time.Second {
			t.Errorf("the outer one ended after %v, want 22s: it hears what the inner one hears", took)
		}
		wait.ReportProgress(t.Context()) // without OnProgress or UntilStalled
	})
}
