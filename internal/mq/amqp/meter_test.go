package amqp_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rideshare/internal/mq"
	"rideshare/internal/testkit/testenv"
)

// A frozen broker delays neither Depths nor Close beyond their bounds, and is asked again when it is back.
func testMeterFrozen(t *testing.T, b *bus) {
	t.Helper()
	b.connected(t, "one") // makes the queues
	config, n := b.config("meter")
	m := b.openMeter(t, config, n)
	defer func() { _ = m.Close() }()
	empty := map[mq.Queue]int{mq.ReadQ: 0, mq.LinearQ: 0, mq.WriteQ: 0, mq.DeadQ: 0}
	depths := func(limit time.Duration) (map[mq.Queue]int, error) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		late := time.AfterFunc(limit+patience, func() { t.Errorf("an ask with %v did not return", limit) })
		defer late.Stop()
		return m.Depths(ctx)
	}
	if got, err := depths(patience); err != nil || !cmp.Equal(got, empty) {
		t.Fatalf("before: got %v, %v, want %v", got, err, empty)
	}
	b.service.Pause(t)
	defer b.service.Resume(t)
	for range 2 { // on a connection, then without one
		if got, err := depths(time.Second); got != nil || is(err, mq.ErrUnavailable) != nil {
			t.Errorf("frozen: got %v, %v, want none and ErrUnavailable", got, err)
		}
	}
	leaving := b.openMeter(t, config, n)
	closeInTime(t, leaving)
	b.service.Resume(t)
	testenv.Eventually(t, patience, func() error {
		_, err := depths(time.Second)
		return err
	})
}

// A quorum queue that does nothing is reported as empty, and working connections are not affected.
func testMeterQueueSuspended(t *testing.T, b *bus) {
	t.Helper()
	c := b.connected(t, "one")
	publish(t, c, mq.ReadQ, 1)
	publish(t, c, mq.WriteQ, 1)
	config, n := b.config("meter")
	m := b.openMeter(t, config, n)
	defer func() { _ = m.Close() }()
	b.suspendQueue(t, mq.WriteQ)
	defer b.resumeQueue(t, mq.WriteQ)
	got, err := m.Depths(t.Context())
	want := map[mq.Queue]int{mq.ReadQ: 1, mq.LinearQ: 0, mq.WriteQ: 0, mq.DeadQ: 0}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("suspended: error %v, depths (-want +got):\n%s", err, diff)
	}
	if lost := c.State().Lost; lost != 0 {
		t.Errorf("%d connections of a worker were lost, want none", lost)
	}
}
