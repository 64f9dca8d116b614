package inproc_test

import (
	"testing"

	"rideshare/internal/mq"
	"rideshare/internal/mq/inproc"
	"rideshare/internal/testkit/mqtest"
)

// bus drives an in-process broker for the conformance suite.
type bus struct{ *inproc.Broker }

func newBus(_ testing.TB, l mqtest.Limits) mqtest.Bus {
	if l.MaxReady == 0 {
		l.MaxReady = 20_000
	}
	if l.SyncBuffer == 0 {
		l.SyncBuffer = 20_000
	}
	return bus{inproc.NewBroker(inproc.Config{MaxReady: l.MaxReady, MaxBytes: l.MaxBytes, SyncBuffer: l.SyncBuffer})}
}

func (b bus) Dial(_ testing.TB, name string) mq.Conn { return b.Broker.Dial(name) }
func (b bus) DialMeter(testing.TB) mq.Meter          { return b.Broker.Dial("meter") }
func (b bus) Crash(_ testing.TB, c mq.Conn)          { c.(*inproc.Conn).Crash() }
func (b bus) Disconnect(testing.TB)                  { b.Broker.Disconnect() }
func (b bus) Block(testing.TB)                       { b.Broker.Block() }
func (b bus) Unblock(testing.TB)                     { b.Broker.Unblock() }
func (b bus) DeleteQueue(_ testing.TB, q mq.Queue)   { b.Broker.DeleteQueue(q) }
func (b bus) DeadLetters(testing.TB) int             { return len(b.Broker.DeadLetters()) }

// The in-process bus keeps every promise of mq.Conn, and leaves no goroutine.
func TestConformance_Bubble(t *testing.T) {
	t.Parallel()
	mqtest.Run(t, mqtest.Features{Bubble: true}, newBus)
}

// The same outside a bubble, where goroutines really run concurrently.
func TestConformance_RealTime(t *testing.T) {
	t.Parallel()
	mqtest.Run(t, mqtest.Features{Quiet: 20_000_000}, newBus)
}
