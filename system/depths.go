package system

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"rideshare/internal/logkey"
	"rideshare/internal/mq"
	"rideshare/internal/telemetry"
)

// depthPeriod is how often the bus is asked for its queue depths, and how long it may take to answer. So a depth is at
// most two periods old.
const depthPeriod = 5 * time.Second

// depths caches how many messages wait at the bus, so that the broker's load does not depend on the number of scrapes.
type depths struct {
	meter  mq.Meter
	log    *slog.Logger
	latest atomic.Pointer[map[mq.Queue]int] // nil while unknown
}

// follow reads the depths immediately and then every depthPeriod, until ctx ends.
func (d *depths) follow(ctx context.Context) {
	tick := time.NewTicker(depthPeriod)
	defer tick.Stop()
	known := true
	for {
		err := d.ask(ctx)
		if err != nil && known && ctx.Err() == nil {
			d.log.WarnContext(ctx, "queue depths not known, asking on", logkey.Error, err)
		}
		known = err == nil
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (d *depths) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, depthPeriod)
	defer cancel()
	got, err := d.meter.Depths(ctx)
	if err != nil {
		d.latest.Store(nil)
		return err
	}
	d.latest.Store(&got)
	return nil
}

func (d *depths) metric() telemetry.Sampled {
	return telemetry.Sampled{
		Name: "rideshare_queue_messages", Gauge: true, Labels: []string{"queue"},
		Help: "Messages that waited for a consumer when the broker was last asked, every 5 s; no series while it does not answer. A quorum queue (writeQ, dead.write) whose leader is away or slow may say 0.",
		Read: func(emit func(float64, ...string)) {
			if latest := d.latest.Load(); latest != nil {
				for queue, n := range *latest {
					emit(float64(n), string(queue))
				}
			}
		},
	}
}
