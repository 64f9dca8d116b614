package wait

import (
	"context"
	"fmt"
	"time"
)

type earKey struct{}

// ear is what Heard calls for a context: its own function, then those of the contexts around it.
type ear struct {
	heard func()
	outer *ear
}

// OnHeard returns a context in which Heard also calls f. f must not block, and may be called concurrently.
func OnHeard(ctx context.Context, f func()) context.Context {
	outer, _ := ctx.Value(earKey{}).(*ear)
	return context.WithValue(ctx, earKey{}, &ear{heard: f, outer: outer})
}

// UntilQuiet returns a context that ends once Heard has not been called with it, or with a context derived from it,
// for quiet. It bounds a call that may take long by its progress. The caller must call cancel.
func UntilQuiet(ctx context.Context, quiet time.Duration) (_ context.Context, cancel context.CancelFunc) {
	ctx, end := context.WithCancelCause(ctx)
	timer := time.AfterFunc(quiet, func() { end(fmt.Errorf("nothing came for %v: %w", quiet, context.DeadlineExceeded)) })
	return OnHeard(ctx, func() { timer.Reset(quiet) }), func() {
		timer.Stop()
		end(nil)
	}
}

// Heard notifies every OnHeard and UntilQuiet around ctx that a call has made progress. Without any, it does nothing.
func Heard(ctx context.Context) {
	e, _ := ctx.Value(earKey{}).(*ear)
	for ; e != nil; e = e.outer {
		e.heard()
	}
}
