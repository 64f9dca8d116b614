package pglog

import (
	"log/slog"
	"testing"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/testkit/pgtest"
	"rideshare/internal/testkit/testenv"
	"rideshare/persdb/commitlog"
)

// A statement may take a second, and longer for its bytes and for those of an append before it that may still be on
// their way to the standby.
func TestLimit_GrowsWithTheBytes(t *testing.T) {
	if got := limit(least, 0); got != time.Second {
		t.Errorf("got %v without bytes, want 1s", got)
	}
	if got := limit(least, 80<<20); got != 11*time.Second {
		t.Errorf("got %v for 80 MiB, want 11s", got)
	}
}

// claimed opens a log that is patient, and claims an epoch.
func claimed(t *testing.T, cfg Config) (*Log, dbaas.Epoch) {
	t.Helper()
	cfg.Log = slog.New(slog.DiscardHandler)
	l, err := Open(t.Context(), cfg.Patient(), dbaas.NewClusterID())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if failed := l.Close(); failed != nil {
			t.Error(failed)
		}
	})
	epoch, err := l.Claim(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return l, epoch
}

// The next statements get time for the bytes of an append whose outcome is unknown, until one of them has succeeded.
func TestLog_UnknownAppend_IsOwed(t *testing.T) {
	p := pgtest.Shared(t)
	first, second := testenv.NewNetwork(t, p.Primary(t)), testenv.NewNetwork(t, p.Primary(t))
	l, epoch := claimed(t, Config{URL: p.Through(t, first.Addr(), second.Addr()), PasswordFile: p.PasswordFile})
	l.BeSlow()
	const size = 100_000
	first.Stall(testenv.ToClient)
	r := commitlog.Record{Entry: dbaas.Entry{Seq: 1, Epoch: epoch}, Operations: make([]byte, size)}
	if err := l.Append(t.Context(), r); dbaas.CodeOf(err) != dbaas.CodeUnknown || l.owed < size {
		t.Errorf("got %v, and %d bytes owed, want code %q and %d", err, l.owed, dbaas.CodeUnknown, size)
	}
	var b commitlog.Bounds
	testenv.Eventually(t, time.Minute, func() (failed error) {
		b, failed = l.Head(t.Context())
		return failed
	})
	if b.Head.Seq != 1 || l.owed != 0 {
		t.Errorf("got %+v, and %d bytes owed, want entry 1 and none", b, l.owed)
	}
}

// A trim gets time for the bytes that it removes. The trigger stands for the time that these take: more than any statement may take.
func TestLog_LargeTrim_IsGivenTime(t *testing.T) {
	p := pgtest.Shared(t)
	l, epoch := claimed(t, Config{URL: p.URL, PasswordFile: p.PasswordFile})
	for seq := range dbaas.Seq(2) {
		if err := l.Append(t.Context(), commitlog.Record{Entry: dbaas.Entry{Seq: seq + 1, Epoch: epoch}, Operations: []byte("x")}); err != nil {
			t.Fatal(err)
		}
	}
	p.Exec(t, `CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(2); RETURN NULL; END';
		CREATE TRIGGER wait BEFORE DELETE ON log FOR EACH STATEMENT EXECUTE FUNCTION wait()`)
	l.session.least = least
	if err := l.Trim(t.Context(), 1, 800<<20); err != nil {
		t.Fatal(err)
	}
	l.session.least = patient
	if b, failed := l.Head(t.Context()); failed != nil || b.Trimmed != 1 {
		t.Errorf("got %+v and %v, want entry 1 trimmed", b, failed)
	}
}
