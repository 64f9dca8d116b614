package slave_test

import (
	"testing"
	"testing/synctest"
	"time"

	"rideshare/internal/dbaas"
)

// fastReads returns n reads of 3 ms each.
func fastReads(n int) []dbaas.Read {
	reads := make([]dbaas.Read, n)
	for i := range reads {
		reads[i] = read("slow 3 ms", time.Second)
	}
	return reads
}

// However many fast reads a message has, none of them uses a transaction that is much older than 50 ms: the replica ends
// old transactions while its WAL is too long. All are answered in one reply.
func TestExecutor_Serve_FastReadsUseYoungTransactions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := newSource(1)
		bus, d, _ := serve(t, source, fastReads(100)...)
		if results, _ := bus.answers(); len(results) != 100 || len(bus.replies) != 1 || d.acked != 1 {
			t.Errorf("got %d answers in %d replies, acked %d; want 100, 1, 1", len(results), len(bus.replies), d.acked)
		}
		if source.tries < 6 || source.most != 1 || source.open != 0 {
			t.Errorf("got %d readers for 300 ms, %d at the same time, %d open; want at least 6, 1, 0", source.tries, source.most, source.open)
		}
	})
}

// If the next transaction cannot be opened, the answers so far do not wait for it.
func TestExecutor_Serve_AnswersDoNotWaitForTheNextTransaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, bus := newSource(1), newBus()
		e := newExecutor(source, bus)
		d, req := request(t, fastReads(30)...)
		go e.Serve(t.Context(), d, req)
		<-time.After(20 * time.Millisecond)
		source.setBroken(true)
		<-time.After(80 * time.Millisecond)
		if results, _ := bus.answers(); len(results) != 18 {
			t.Errorf("got %d answers after 100 ms, want the 18 of the first transaction", len(results))
		}
		source.setBroken(false)
		<-time.After(400 * time.Millisecond)
		synctest.Wait()
		if results, _ := bus.answers(); len(results) != 30 || d.ackCount() != 1 {
			t.Errorf("got %d answers, acked %d; want 30, 1", len(results), d.ackCount())
		}
		e.Wait()
	})
}
