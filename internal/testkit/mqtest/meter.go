package mqtest

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/go-cmp/cmp"

	"rideshare/internal/mq"
)

// meterTests are about the counts of waiting messages.
func meterTests() []test {
	return []test{
		{name: "MeterCountsWhatWaits", run: testDepths},
		{name: "MeterLeavesOutAMissingQueue", run: testDepthMissing},
		{name: "MeterComesBack", run: testMeterReconnects},
		{name: "MeterEndsWithClose", run: testMeterCloses},
	}
}

func (s *suite) meter() mq.Meter {
	m := s.bus.DialMeter(s.T)
	s.Cleanup(func() { _ = m.Close() })
	return m
}

// depths waits until the meter returns want for the queues; if none is named, for all.
func (s *suite) depths(m mq.Meter, want map[mq.Queue]int, queues ...mq.Queue) {
	s.Helper()
	s.Eventually(func() error {
		ctx, cancel := context.WithTimeout(s.Context(), s.Patience)
		defer cancel()
		got, err := m.Depths(ctx, queues...)
		if err != nil {
			return err
		}
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("depths (-want +got):\n%s", diff)
		}
		return nil
	})
}

// Waiting messages count, unacknowledged ones do not, and a rejected message counts as a dead letter.
func testDepths(s *suite) {
	c, m := s.dial("one"), s.meter()
	s.depths(m, map[mq.Queue]int{mq.ReadQ: 0, mq.LinearQ: 0, mq.WriteQ: 0, mq.DeadQ: 0})
	s.publish(c, mq.ReadQ, numbered(3)...)
	s.publish(c, mq.WriteQ, numbered(4)...)
	s.depths(m, map[mq.Queue]int{mq.ReadQ: 3, mq.LinearQ: 0, mq.WriteQ: 4, mq.DeadQ: 0})
	s.depths(m, map[mq.Queue]int{mq.WriteQ: 4}, mq.WriteQ)
	reads, writes := s.consume(c, mq.ReadQ, 1), s.consume(c, mq.WriteQ, 1)
	reads.next("m0")
	if err := writes.next("m0").Reject(); err != nil {
		s.Fatalf("reject: got %v, want nil", err)
	}
	writes.next("m1")
	s.depths(m, map[mq.Queue]int{mq.ReadQ: 2, mq.LinearQ: 0, mq.WriteQ: 2, mq.DeadQ: 1})
}

// A deleted queue does not hide the others.
func testDepthMissing(s *suite) {
	c, m := s.dial("one"), s.meter()
	s.publish(c, mq.WriteQ, "m0")
	s.depths(m, map[mq.Queue]int{mq.WriteQ: 1}, mq.WriteQ) // connected: a node of a cluster without its read queue is left out
	s.bus.DeleteQueue(s.T, mq.ReadQ)
	s.depths(m, map[mq.Queue]int{mq.LinearQ: 0, mq.WriteQ: 1, mq.DeadQ: 0})
}

// A lost connection is re-established.
func testMeterReconnects(s *suite) {
	c, m := s.dial("one"), s.meter()
	s.publish(c, mq.WriteQ, "m0")
	want := map[mq.Queue]int{mq.ReadQ: 0, mq.LinearQ: 0, mq.WriteQ: 1, mq.DeadQ: 0}
	s.depths(m, want)
	s.bus.Disconnect(s.T)
	s.depths(m, want)
}

// After Close there are no counts.
func testMeterCloses(s *suite) {
	m := s.meter()
	if err := errors.Join(m.Close(), m.Close()); err != nil {
		s.Errorf("close twice: got %v, want nil", err)
	}
	got, err := m.Depths(s.Context())
	s.WantError("Depths", err, mq.ErrClosed)
	if got != nil {
		s.Errorf("after Close: got %v, want none", got)
	}
}
