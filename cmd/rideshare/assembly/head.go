package assembly

import (
	"context"
	"time"

	"rideshare/internal/dbaas"
)

// headPeriod is how often the orchestrator asks persdb for its head: the longest
// that a read here may miss a write that another orchestrator acknowledged.
const headPeriod = time.Second

// header is the part of persdb that followHead asks.
type header interface {
	Head(ctx context.Context) (dbaas.Head, error)
}

// followHead tells saw of persdb's head, at once and then every headPeriod, until
// ctx ends. The dispatcher knows by itself what it has acknowledged; this is for what
// it acknowledged in an earlier life, and for what other orchestrators did. While persdb
// does not answer nothing is told: reads go on with what is known.
func followHead(ctx context.Context, store header, saw func(dbaas.Seq)) {
	tick := time.NewTicker(headPeriod)
	defer tick.Stop()
	for {
		call, cancel := context.WithTimeout(ctx, headPeriod)
		head, err := store.Head(call)
		cancel()
		if err == nil {
			saw(head.Seq)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
