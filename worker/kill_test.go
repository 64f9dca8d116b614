package worker_test

import (
	"errors"
	"testing"
	"time"

	"rideshare/internal/mq"
	"rideshare/worker"
)

// A killed worker does not say goodbye: its registration stays until the session ends, and its deliveries are
// redelivered.
func TestWorker_Kill_SaysNoGoodbye(t *testing.T) {
	c := newCluster(t, time.Hour)
	n := c.slave(2, nil)
	n.Kill()
	if err := n.wait(); !errors.Is(err, worker.ErrKilled) {
		t.Errorf("got %v, want killed", err)
	}
	if _, err := c.member(2); err != nil {
		t.Errorf("got %v, want the registration still there", err)
	}
}

// slowCut is a bus whose Crash returns late: when the worker closes the bus, as it does at its end, or after the worker
// had enough time to do so.
type slowCut struct {
	mq.Conn
	closing chan struct{} // gets a value from Close
}

func (b slowCut) Crash() {
	_ = b.Conn.Close() // in-process it never fails
	select {
	case <-b.closing:
	case <-time.After(50 * time.Millisecond):
	}
}

func (b slowCut) Close() error {
	select {
	case b.closing <- struct{}{}:
	default:
	}
	return nil
}

// A worker that notices the loss of its bus before Kill has cut its other connections does not say goodbye either.
func TestWorker_Kill_BusEndsFirst_SaysNoGoodbye(t *testing.T) {
	c := newCluster(t, time.Hour)
	n := c.slave(2, func(config *worker.Config) { config.Bus = slowCut{config.Bus, make(chan struct{})} })
	n.Kill()
	if err := n.wait(); !errors.Is(err, worker.ErrKilled) {
		t.Errorf("got %v, want killed", err)
	}
	if _, err := c.member(2); err != nil {
		t.Errorf("got %v, want the registration still there", err)
	}
}
