package pause

import (
	"context"
	"fmt"
	"time"
)

type earKey struct{}

// ear is what a context does when something is heard.
type ear struct {
	heard func()
	outer *ear
}

// OnHeard returns a context with which Heard calls f too. f must not wait, and may be called by several goroutines at once.
func OnHeard(ctx context.Context, f func()) context.Context {
	outer, _ := ctx.Value(earKey{}).(*ear)
	return context.WithValue(ctx, earKey{}, &ear{heard: f, outer: outer})
}

// UntilQuiet returns a context that ends once Heard was not called with it, or with one made from it, for quiet. It
// bounds a call that may take long as long as it gets on. The caller calls cancel at the end.
func UntilQuiet(ctx context.Context, quiet time.Duration) (_ context.Context, cancel context.CancelFunc) {
	ctx, end := context.WithCancelCause(ctx)
	timer := time.AfterFunc(quiet, func() { end(fmt.Errorf("nothing came for %v: %w", quiet, context.DeadlineExceeded)) })
	return OnHeard(ctx, func() { timer.Reset(quiet) }), func() {
		timer.Stop()
		end(nil)
	}
}

// Heard tells every OnHeard and UntilQuiet around ctx that a call gets on. Without one it does nothing.
func Heard(ctx context.Context) {
	e, _ := ctx.Value(earKey{}).(*ear)
	for ; e != nil; e = e.outer {
		e.heard()
	}
}
