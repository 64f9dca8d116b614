package pglog_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rideshare/internal/dbaas"
	"rideshare/internal/testkit/pgtest"
	"rideshare/internal/testkit/testenv"
	"rideshare/persdb/commitlog"
	"rideshare/persdb/pglog"
)

// wires are two networks to one primary: a log that loses the first one takes the second.
type wires struct {
	first, second *testenv.Network
	log           *pglog.Log
	epoch         dbaas.Epoch
	place         *pgtest.Place
	name          string // by which the server knows the log's connections
}

// openOnWires opens a log with one entry.
func openOnWires(t *testing.T) *wires {
	t.Helper()
	p := pgtest.Shared(t)
	w := &wires{place: p, first: testenv.NewNetwork(t, p.Primary(t)), second: testenv.NewNetwork(t, p.Primary(t))}
	w.name = "wires-" + t.Name()
	cfg := config(p).Patient()
	cfg.URL = p.Through(t, w.first.Addr(), w.second.Addr()) + "&application_name=" + w.name
	w.log = open(t, cfg)
	w.epoch = claim(t, w.log)
	mustAppend(t, w.log, record(1, w.epoch, "one"))
	w.log.BeSlow()
	return w
}

// wantConnections waits until the server has so many connections of the log.
func (w *wires) wantConnections(t *testing.T, want int) {
	t.Helper()
	testenv.Eventually(t, soon, func() error {
		got := w.place.Value(t, "SELECT count(*) FROM pg_stat_activity WHERE application_name='"+w.name+"'")
		if got != fmt.Sprint(want) {
			return fmt.Errorf("got %s connections, want %d", got, want)
		}
		return nil
	})
}

// A cut between the statement and its answer makes the outcome unknown. The next head has the entry, and it has one
// content.
func TestLog_AnswerLost_IsUnknownThenThere(t *testing.T) {
	w := openOnWires(t)
	two := record(2, w.epoch, "two")
	w.first.Stall(testenv.ToClient)
	wantCode(t, w.log.Append(t.Context(), two), dbaas.CodeUnknown)
	wantHead(t, w.log, 2)
	wantRefused(t, dbaas.CodeConflict, "", func() error { return w.log.Append(t.Context(), record(2, w.epoch, "other")) })
	wantRecords(t, w.log, record(1, w.epoch, "one"), two)
}

// A statement that arrives after its outcome was settled has no effect, however late it comes.
func TestLog_StatementLate_HasNoEffect(t *testing.T) {
	w := openOnWires(t)
	w.first.Stall(testenv.ToServer)
	wantCode(t, w.log.Append(t.Context(), record(2, w.epoch, "late")), dbaas.CodeUnknown)
	wantHead(t, w.log, 1)
	w.wantConnections(t, 2)
	w.first.Heal() // the statement arrives, and then the end of its connection.
	w.wantConnections(t, 1)
	wantHead(t, w.log, 1)
	mustAppend(t, w.log, record(2, w.epoch, "two"))
	wantRecords(t, w.log, record(1, w.epoch, "one"), record(2, w.epoch, "two"))
}

// To connect to a silent primary takes the whole time of a call. The next call tries the next server, so that callers with little
// time find the new primary, too.
func TestLog_PrimarySilent_ShortCallsFindTheNext(t *testing.T) {
	w := openOnWires(t)
	w.first.Reset()
	w.first.Cut()
	testenv.Eventually(t, soon, func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		_, err := w.log.Head(ctx)
		return err
	})
	mustAppend(t, w.log, record(2, w.epoch, "two"))
}

// A primary that stalls for a moment is used again as soon as it answers, if no other server is the primary.
func TestLog_PrimaryStallsForAMoment_IsUsedAgain(t *testing.T) {
	w := openOnWires(t)
	w.second.Abandon()
	w.first.Stall(testenv.ToServer)
	wantCode(t, w.log.Append(t.Context(), record(2, w.epoch, "two")), dbaas.CodeUnknown)
	w.first.Heal()
	testenv.Eventually(t, soon, func() error {
		_, err := w.log.Head(t.Context())
		return err
	})
	if !w.log.WasSilent() {
		t.Error("the primary was not found silent")
	}
}

// A read that waits for a silent primary finds the next primary, without another call, and goes on there.
func TestLog_PrimarySilent_ReadGoesOnAtTheNext(t *testing.T) {
	w := openOnWires(t)
	one := record(1, w.epoch, "one")
	for range 4 { // on each of the log's connections for reads
		wantRecords(t, w.log, one)
	}
	w.first.Stall(testenv.ToClient)
	var got []commitlog.Record
	read := make(chan error, 1)
	go func() {
		var err error
		got, err = w.log.Read(t.Context(), 0, commitlog.Limit{Records: 10, Bytes: 1 << 20})
		read <- err
	}()
	testenv.Eventually(t, soon, func() error {
		if !w.first.Holds("one") {
			return errors.New("the read has no answer yet that waits")
		}
		return nil
	})
	if err := <-read; err != nil {
		t.Fatal(err)
	}
	if !w.log.WasSilent() {
		t.Error("the primary was not found silent, so it would not be left out")
	}
	if diff := cmp.Diff([]commitlog.Record{one}, got); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
}

// A connection that ends while nothing runs on it costs at most one refused call.
func TestLog_ConnectionEnds_IsReplaced(t *testing.T) {
	w := openOnWires(t)
	w.place.Exec(t, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name='"+w.name+"'")
	wantHead(t, w.log, 1)
	mustAppend(t, w.log, record(2, w.epoch, "two"))
	w.first.Abandon()
	wantHead(t, w.log, 2)
	wantRecords(t, w.log, record(1, w.epoch, "one"), record(2, w.epoch, "two"))
}

// A read whose connection has ended while nothing ran on it takes a new one.
func TestLog_ReadConnectionsEnd_ReadSucceeds(t *testing.T) {
	w := openOnWires(t)
	const readers = 4
	for range readers {
		wantRecords(t, w.log, record(1, w.epoch, "one"))
	}
	w.wantConnections(t, 1+readers)
	w.place.Exec(t, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name='"+w.name+"' AND query LIKE 'SELECT seq, epoch%'")
	w.wantConnections(t, 1)
	for range readers {
		if _, err := w.log.Read(t.Context(), 0, commitlog.Limit{Records: 1, Bytes: 1 << 20}); err != nil {
			t.Error(err)
		}
	}
}

// A primary that lacks entries which were stored is refused, as one that was promoted without them.
func TestLog_EntriesLost_IsRefused(t *testing.T) {
	w := openOnWires(t)
	mustAppend(t, w.log, record(2, w.epoch, "two"))
	w.place.Exec(t, "UPDATE log_meta SET head=1; DELETE FROM log WHERE seq=2")
	w.first.Abandon()
	testenv.Eventually(t, soon, func() error {
		b, err := w.log.Head(t.Context())
		if err == nil {
			t.Fatalf("got %+v, want the log refused", b)
		}
		if final := dbaas.CodeOf(w.log.Append(t.Context(), record(2, w.epoch, "other"))); final != dbaas.CodeInternal {
			return fmt.Errorf("got code %q, want %q", final, dbaas.CodeInternal)
		}
		return nil
	})
}
