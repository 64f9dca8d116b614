package ladder

import (
	"context"
	"sync"
	"time"
)

const (
	// slowEvery is the interval of the slow statement; slowFor is about how long it takes a worker.
	slowEvery = time.Second
	slowFor   = 200 * time.Millisecond
	// slowProbe is how far the statement counts when its speed is measured.
	slowProbe = 100_000
)

// slowCount makes a worker count to n, which uses only its core.
func slowCount(ctx context.Context, url string, n int) error {
	statement := []any{"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<?) SELECT count(*) FROM n", n}
	_, err := askSQL(ctx, url+"/db/query", []any{statement})
	return err
}

// slowSize returns how far the statement must count to take slowFor.
func slowSize(ctx context.Context, url string) (int, error) {
	start := time.Now()
	if err := slowCount(ctx, url, slowProbe); err != nil {
		return 0, err
	}
	return int(slowProbe * slowFor.Seconds() / time.Since(start).Seconds()), nil
}

// besideSlow repeats the slow statement until end is called. end returns the first error.
func (t *target) besideSlow(ctx context.Context) (end func() error, err error) {
	size, err := slowSize(ctx, t.addresses.Database)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	var failed error
	running.Go(func() {
		tick := time.NewTicker(slowEvery)
		defer tick.Stop()
		for {
			if err := slowCount(ctx, t.addresses.Database, size); err != nil && ctx.Err() == nil {
				failed = err
				return
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	})
	return func() error {
		cancel()
		running.Wait()
		return failed
	}, nil
}
