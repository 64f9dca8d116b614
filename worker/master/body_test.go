package master_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"rideshare/internal/dbaas"
)

// While persdb has no room, accepted writes are pending as dead letters for as long as that lasts. The master keeps none of
// their bodies, nor that of a pending write: 64 of them may be larger than its memory.
func TestMaster_Run_PendingMessagesKeepNoBodies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(1)
		store.fail = func([]dbaas.Operation) error { return dbaas.Errorf(dbaas.CodeFull, "full") }
		m := start(t, store)
		var held []*fakeDelivery
		for n := range byte(3) {
			d := m.bus.message(t, "accepted", op(n+1, 0))
			m.bus.dead <- d
			held = append(held, d)
		}
		held = append(held, m.bus.send(t, "write", op(9, time.Minute)))
		synctest.Wait()
		for _, d := range held {
			if n := len(d.Message().Body); n > 0 {
				t.Errorf("message %q is pending with its body of %d bytes", d.message.ID, n)
			}
		}
		m.end(t)
	})
}

// Messages that are larger than a batch together are committed one after the other.
func TestMaster_Run_BytesOfABatchAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(1)
		store.took = time.Second
		m := start(t, store)
		m.bus.send(t, "first", op(1, time.Minute))
		synctest.Wait()
		for n := range byte(2) {
			large := op(n+2, time.Minute)
			large.Statements[0].SQL = strings.Repeat("x", 700<<10)
			m.bus.send(t, "large", large)
		}
		m.bus.send(t, "small", op(4, time.Minute))
		synctest.Wait()
		if err := m.finish(); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([][]dbaas.OpID{{{1}}, {{2}}, {{3}, {4}}}, store.asked()); diff != "" {
			t.Errorf("batches (-want +got):\n%s", diff)
		}
	})
}
