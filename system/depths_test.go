package system

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"rideshare/internal/mq"
	"rideshare/internal/mq/inproc"
)

// countingMeter counts how often it is asked.
type countingMeter struct {
	mq.Meter
	asked int // read when the bubble is at rest
}

func (m *countingMeter) Depths(ctx context.Context, of ...mq.Queue) (map[mq.Queue]int, error) {
	m.asked++
	return m.Meter.Depths(ctx, of...)
}

// shown is what a scrape shows.
func shown(d *depths) map[string]float64 {
	got := map[string]float64{}
	d.metric().Read(func(value float64, labels ...string) { got[labels[0]] = value })
	return got
}

// The depths are those of the last poll. They are absent while the broker is away and return with it; scrapes do not ask
// the broker.
func TestDepths_BrokerStops_AbsentUntilItIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broker := inproc.NewBroker(inproc.Config{})
		publisher := broker.Dial("publisher")
		connection := broker.Dial("meter")
		meter := &countingMeter{Meter: connection}
		d := &depths{meter: meter, log: slog.New(slog.DiscardHandler)}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go d.follow(ctx)

		want := func(when string, want map[string]float64) {
			t.Helper()
			synctest.Wait()
			if diff := cmp.Diff(want, shown(d)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", when, diff)
			}
		}
		period := func() {
			time.Sleep(depthPeriod)
			synctest.Wait()
		}
		want("at once", map[string]float64{"readQ": 0, "linearQ": 0, "writeQ": 0, "dead.write": 0})
		if err := publisher.Publish(t.Context(), mq.WriteQ, mq.Message{}); err != nil {
			t.Fatal(err)
		}
		period()
		waiting := map[string]float64{"readQ": 0, "linearQ": 0, "writeQ": 1, "dead.write": 0}
		want("after a publish", waiting)
		connection.Partition()
		period()
		want("while the broker is away", map[string]float64{})
		connection.Heal()
		period()
		want("after it", waiting)
		if meter.asked != 4 {
			t.Errorf("asked %d times in three periods, want 4, whatever is scraped", meter.asked)
		}
	})
}
