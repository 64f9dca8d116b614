package slave_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/worker/slave"
)

// work is a read that works for as many milliseconds as its argument says.
func work(ms int64) dbaas.Read {
	r := read("busy ?", 10*time.Second)
	r.Statements[0].Args = []dbaas.Value{dbaas.Integer(ms)}
	return r
}

// serving serves a message of reads beside others, and returns a channel that is closed when all are answered.
func serving(t *testing.T, e *slave.Executor, reads ...dbaas.Read) <-chan struct{} {
	t.Helper()
	d, req := request(t, reads...)
	done := make(chan struct{})
	go func() {
		defer close(done)
		e.Serve(t.Context(), d, req)
	}()
	return done
}

// While all slow slots are taken, reads that were slow before wait for one. None of them runs in vain.
func TestExecutor_Serve_ReadsThatWereSlowBeforeRunOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := newSource(1)
		e := newExecutor(source, newBus())
		<-serving(t, e, work(50))
		var all sync.WaitGroup
		begin := func(reads int) {
			for range reads {
				all.Go(func() { <-serving(t, e, work(50)) })
			}
		}
		begin(2)
		<-time.After(20 * time.Millisecond) // now they have both slow slots
		begin(18)
		all.Wait()
		e.Wait()
		if got := source.begun["busy ?"]; got != 21 {
			t.Errorf("21 reads began %d times", got)
		}
	})
}

// A read that has become fast waits for a slow slot once more, and then no longer.
func TestExecutor_Serve_ReadThatIsNoLongerSlowIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newExecutor(newSource(1), newBus())
		<-serving(t, e, work(50))
		for _, want := range []time.Duration{100 * time.Millisecond, 0} {
			slow := serving(t, e, read("slow 100 ms", time.Second), read("slow 100 ms", time.Second))
			<-time.After(20 * time.Millisecond) // now they have both slow slots
			began := time.Now()
			<-serving(t, e, work(0))
			if took := time.Since(began); took > want || took < want/2 {
				t.Errorf("a fast read took %v, want %v", took, want)
			}
			<-slow
		}
		e.Wait()
	})
}

// A read that did little, but had no core for some time, is not remembered as slow.
func TestExecutor_Serve_ReadWithoutACoreIsNotRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := newSource(1)
		e := newExecutor(source, newBus())
		<-serving(t, e, read("slow 10 ms", time.Second))
		slow := serving(t, e, read("slow 100 ms", time.Second), read("slow 100 ms", time.Second))
		<-time.After(20 * time.Millisecond) // now they have both slow slots
		<-serving(t, e, read("slow 10 ms", time.Second))
		<-slow
		e.Wait()
		if got := source.begun["slow 10 ms"]; got != 3 {
			t.Errorf("two reads began %d times, want 3: the second one was tried in a fast slot", got)
		}
	})
}
