package wait

import (
	"context"
	"fmt"
	"time"
)

type listenerKey struct{}

// listener is what ReportProgress calls for a context: its own function, then those of the contexts around it.
type listener struct {
	progress func()
	outer    *listener
}

// OnProgress returns a context in which ReportProgress also calls f. f must not block, and may be called concurrently.
func OnProgress(ctx context.Context, f func()) context.Context {
	outer, _ := ctx.Value(listenerKey{}).(*listener)
	return context.WithValue(ctx, listenerKey{}, &listener{progress: f, outer: outer})
}

// UntilStalled returns a context that ends once ReportProgress has not been called with it, or with a context derived from it,
// for quiet. It bounds a call that may take long by its progress. The caller must call cancel.
func UntilStalled(ctx context.Context, quiet time.Duration) (_ context.Context, cancel context.CancelFunc) {
	ctx, end := context.WithCancelCause(ctx)
	timer := time.AfterFunc(quiet, func() { end(fmt.Errorf("nothing came for %v: %w", quiet, context.DeadlineExceeded)) })
	return OnProgress(ctx, func() { timer.Reset(quiet) }), func() {
		timer.Stop()
		end(nil)
	}
}

// ReportProgress notifies every OnProgress and UntilStalled around ctx that a call has made progress. Without any, it does nothing.
func ReportProgress(ctx context.Context) {
	e, _ := ctx.Value(listenerKey{}).(*listener)
	for ; e != nil; e = e.outer {
		e.progress()
	}
}
