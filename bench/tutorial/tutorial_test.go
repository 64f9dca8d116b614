package tutorial

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"rideshare/internal/sqlite"
)

// send makes one request, and returns the calls it made to the broker and how long it took. It leaves out the
// acknowledgements of the replica's feeder, which come in no fixed order.
func send(t *testing.T, b *broker, call func() ([]byte, error), want string) (asked []string, took time.Duration) {
	t.Helper()
	synctest.Wait() // for the acknowledgements of earlier requests
	b.take()
	began := time.Now()
	got, err := call()
	took = time.Since(began)
	if err != nil || string(got) != want {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
	synctest.Wait()
	return slices.DeleteFunc(b.take(), func(s string) bool { return s == "ack own-2" }), took
}

func makeTable(t *testing.T, r *RPC) {
	t.Helper()
	if _, err := r.Execute(t.Context(), []byte(`["CREATE TABLE t (k TEXT PRIMARY KEY)"]`)); err != nil {
		t.Fatal(err)
	}
}

func insert(t *testing.T, r *RPC, key string) func() ([]byte, error) {
	t.Helper()
	return func() ([]byte, error) {
		return r.Write(t.Context(), fmt.Appendf(nil, `{"query":"insert","table":"t","values":{"k":%q}}`, key))
	}
}

// The paths compared with the product keep their definition: prefetch, acknowledgements, persistence, and the messages
// per request. Nothing waits, except a write for its one confirm.
func TestRPC_Request_TakesTheseMessagesAndNoTime(t *testing.T) {
	for name, settings := range map[string]Settings{"Tutorial": {Readers: 1, Prefetch: 1}, "Best": {Readers: 2, Prefetch: 16}} {
		t.Run(name, func(t *testing.T) {
			if got := map[string]Settings{"Tutorial": Tutorial(), "Best": Best()}[name]; got != settings {
				t.Errorf("got settings %+v, want %+v", got, settings)
			}
			synctest.Test(t, func(t *testing.T) {
				b := newBroker()
				r := b.start(t, settings)
				prefetch := fmt.Sprintf("prefetch=%d autoack=false", settings.Prefetch)
				want := []string{
					"queue tutorial-read durable=true exclusive=false", "queue tutorial-write durable=true exclusive=false", "queue own-1 durable=false exclusive=true",
					"consume own-1 prefetch=0 autoack=true", "confirms", "consume tutorial-write " + prefetch, "queue own-2 durable=false exclusive=true", "consume own-2 " + prefetch,
				}
				want = append(want, slices.Repeat([]string{"consume tutorial-read " + prefetch}, settings.Readers)...)
				if got := b.take(); !slices.Equal(got, want) {
					t.Errorf("start: got %q, want %q", got, want)
				}
				makeTable(t, r)
				asked, took := send(t, b, insert(t, r, "a"), "{}")
				want = []string{"publish tutorial-write transient", "publish tutorial-sync persistent", "confirm", "publish own-1 transient", "ack tutorial-write"}
				if !slices.Equal(asked, want) || took != confirmTime {
					t.Errorf("write: got %q in %v, want %q in %v", asked, took, want, confirmTime)
				}
				asked, took = send(t, b, func() ([]byte, error) {
					return r.Read(t.Context(), []byte(`{"table":"t","columns":["k"],"condition":{"k":"a"}}`))
				}, `[{"k":"a"}]`)
				want = []string{"publish tutorial-read transient", "publish own-1 transient", "ack tutorial-read"}
				if !slices.Equal(asked, want) || took != 0 {
					t.Errorf("read: got %q in %v, want %q in no time", asked, took, want)
				}
			})
		})
	}
}

// The best settings commit writes while others are confirmed; the tutorial takes one after the other.
func TestRPC_WritesAtOnce_WaitForConfirmsAsThePrefetchSays(t *testing.T) {
	const writes = 8
	for name, test := range map[string]struct {
		settings Settings
		want     time.Duration
	}{"Tutorial": {Tutorial(), writes * confirmTime}, "Best": {Best(), confirmTime}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newBroker().start(t, test.settings)
				makeTable(t, r)
				began := time.Now()
				var all sync.WaitGroup
				for i := range writes {
					all.Go(func() {
						if _, err := insert(t, r, fmt.Sprint(i))(); err != nil {
							t.Error(err)
						}
					})
				}
				all.Wait()
				if took := time.Since(began); took != test.want {
					t.Errorf("got %d writes in %v, want %v", writes, took, test.want)
				}
			})
		})
	}
}

// The writer's commits wait for the disk, and the readers have the options that those of the product have.
func TestRPC_Databases_OptionsOfTheirConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newBroker().start(t, Best())
		synctest.Wait()
		if len(r.workers) != 4 {
			t.Fatalf("got %d workers, want the writer, the feeder and two readers", len(r.workers))
		}
		writer, reader := map[string]int64{"synchronous": 2, "query_only": 0}, map[string]int64{"query_only": 1, "mmap_size": 256 << 20}
		for i, want := range []map[string]int64{writer, {"synchronous": 0, "query_only": 0}, reader, reader} {
			for pragma, value := range want {
				if got := pragmaOf(t, r.workers[i].db, pragma); got != value {
					t.Errorf("worker %d: got %s=%d, want %d", i, pragma, got, value)
				}
			}
		}
	})
}

func pragmaOf(t *testing.T, c *sqlite.Conn, name string) (value int64) {
	t.Helper()
	if err := c.Query("PRAGMA "+name, func(r sqlite.Row) error { value = r.Int(0); return nil }); err != nil {
		t.Fatal(err)
	}
	return value
}

// A write that fails is answered with its error, changes nothing and is not broadcast.
func TestRPC_WriteFails_IsAnsweredAndNotBroadcast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBroker()
		r := b.start(t, Tutorial())
		makeTable(t, r)
		if _, err := insert(t, r, "a")(); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		b.take()
		if _, err := insert(t, r, "a")(); err == nil {
			t.Error("the same key passes twice")
		}
		synctest.Wait()
		if want, got := []string{"publish tutorial-write transient", "publish own-1 transient", "ack tutorial-write"}, b.take(); !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}
