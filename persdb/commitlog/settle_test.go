package commitlog_test

import (
	"testing"

	"rideshare/internal/dbaas"
	"rideshare/internal/testkit/disktest"
	"rideshare/internal/testkit/storetest"
)

// The disk cannot sync the log, so the outcome of a commit is unknown. Once the store says that the commit was not done, it
// stays so: a later start does not find the commit in the WAL, even if the disk has all that was written.
func TestStore_FailedSync_NotDoneIsFinal(t *testing.T) {
	r := onDisk(t)
	defer func() { closeStore(t, r.store) }()
	epoch := storetest.Claim(t, r.store)
	commit := func(epoch dbaas.Epoch, n int, sql string) dbaas.Code {
		_, err := r.store.Commit(t.Context(), dbaas.Leadership{Epoch: epoch}, []dbaas.Operation{op(n, sql)})
		return dbaas.CodeOf(err)
	}
	failures := 2
	r.disk.SetFault(func(op disktest.Op) disktest.Fault {
		if op == (disktest.Op{Kind: disktest.Sync, Name: wal}) && failures > 0 {
			failures--
			return disktest.Unsynced
		}
		return disktest.None
	})
	if code := commit(epoch, 1, ann); code != dbaas.CodeUnknown {
		t.Fatalf("without a sync: got code %q", code)
	}
	if code := commit(epoch, 1, ann); code != dbaas.CodeUnknown || failures != 0 {
		t.Errorf("the same batch, and again no sync: got code %q, %d failures left", code, failures)
	}
	if code := commit(epoch+1, 2, bob); code != dbaas.CodeStaleEpoch { // it writes nothing
		t.Errorf("a commit of another epoch: got code %q", code)
	}
	if _, err := r.store.Lookup(t.Context(), storetest.ID(1)); dbaas.CodeOf(err) != dbaas.CodeNotFound {
		t.Errorf("look up the commit: got %v, want code %q", err, dbaas.CodeNotFound)
	}
	r.disk.CutAfter(1)
	_ = r.leave() // as the end of a process does
	r.disk.Restart()
	r.store = reopen(t, r.config())
	if _, err := r.store.Lookup(t.Context(), storetest.ID(1)); dbaas.CodeOf(err) != dbaas.CodeNotFound {
		t.Errorf("look it up after a restart: got %v, want code %q", err, dbaas.CodeNotFound)
	}
	if c := storetest.Commit(t, r.store, epoch, op(1, ann)); c.Entry == nil || c.Entry.Seq != 1 {
		t.Errorf("the same batch: %+v", c)
	}
}
