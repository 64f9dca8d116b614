// Package logtest is the conformance suite for every commitlog.Log, whether it is in a file or on another machine.
package logtest

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rideshare/internal/dbaas"
	"rideshare/persdb/commitlog"
)

// subject is the log under test.
type subject struct {
	commitlog.Log

	closed *sync.Once
}

// Close closes the log once.
func (s subject) Close() (err error) {
	s.closed.Do(func() { err = s.Log.Close() })
	return err
}

// Run runs the suite. open returns an empty log, which the suite closes.
func Run(t *testing.T, open func(t *testing.T) commitlog.Log) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, subject){
		"EpochsGrow":                     epochsGrow,
		"AppendOnlyNextSeqOfNewestEpoch": appendOnlyNext,
		"ReadReturnsWhatWasAppended":     readReturns,
		"ReadKeepsLimits":                readKeepsLimits,
		"TrimKeepsNewestAndSaysGone":     trimKeepsNewest,
		"HeadHasWhatWasStored":           headHasWhatWasStored,
		"CloseEndsReads":                 closeEndsReads,
	} {
		t.Run(name, func(t *testing.T) {
			s := subject{Log: open(t), closed: &sync.Once{}}
			t.Cleanup(func() {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
			test(t, s)
		})
	}
}

func record(seq dbaas.Seq, epoch dbaas.Epoch, size int) commitlog.Record {
	return commitlog.Record{
		Entry: dbaas.Entry{
			Seq: seq, Epoch: epoch, At: time.UnixMilli(1_700_000_000_000 + int64(seq)),
			Changes: []dbaas.Change{{Kind: dbaas.ChangeSchema, Data: fmt.Appendf(nil, "text %d", seq)}, {Kind: dbaas.ChangeRows, Data: make([]byte, size)}},
		},
		Operations: fmt.Appendf(nil, "operations of %d", seq),
	}
}

func (s subject) mustAppend(t *testing.T, epoch dbaas.Epoch, n, size int) []commitlog.Record {
	t.Helper()
	var records []commitlog.Record
	for i := range n {
		r := record(dbaas.Seq(i+1), epoch, size)
		if err := s.Append(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		records = append(records, r)
	}
	return records
}

func (s subject) claim(t *testing.T) dbaas.Epoch {
	t.Helper()
	epoch, err := s.Claim(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return epoch
}

func (s subject) wantBounds(t *testing.T, want commitlog.Bounds) {
	t.Helper()
	got, err := s.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("bounds (-want +got):\n%s", diff)
	}
}

func epochsGrow(t *testing.T, s subject) {
	t.Helper()
	s.wantBounds(t, commitlog.Bounds{})
	for want := dbaas.Epoch(1); want < 4; want++ {
		if got := s.claim(t); got != want {
			t.Errorf("got epoch %d, want %d", got, want)
		}
	}
	s.wantBounds(t, commitlog.Bounds{Head: dbaas.Head{Epoch: 3}})
}

func appendOnlyNext(t *testing.T, s subject) {
	t.Helper()
	old := s.claim(t)
	s.mustAppend(t, old, 1, 10)
	epoch := s.claim(t)
	for _, tc := range []struct {
		seq   dbaas.Seq
		epoch dbaas.Epoch
		want  dbaas.Code
	}{
		{2, old, dbaas.CodeStaleEpoch},
		{2, 0, dbaas.CodeStaleEpoch},
		{2, epoch + 1, dbaas.CodeStaleEpoch},
		{1, epoch, dbaas.CodeConflict},
		{3, epoch, dbaas.CodeConflict},
		{2, epoch, dbaas.CodeOK},
		{2, epoch, dbaas.CodeConflict},
	} {
		if got := dbaas.CodeOf(s.Append(t.Context(), record(tc.seq, tc.epoch, 10))); got != tc.want {
			t.Errorf("append of %d in epoch %d: got %q, want %q", tc.seq, tc.epoch, got, tc.want)
		}
	}
	s.wantBounds(t, commitlog.Bounds{Head: dbaas.Head{Seq: 2, Epoch: epoch}})
}

func readReturns(t *testing.T, s subject) {
	t.Helper()
	want := s.mustAppend(t, s.claim(t), 3, 10)
	empty := record(4, 1, 0)
	empty.Entry.Changes = nil
	if err := s.Append(t.Context(), empty); err != nil {
		t.Fatal(err)
	}
	want = append(want, empty)
	for after := range want {
		got, err := s.Read(t.Context(), dbaas.Seq(after), commitlog.Limit{Records: 100, Bytes: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want[after:], got); diff != "" {
			t.Errorf("records after %d (-want +got):\n%s", after, diff)
		}
	}
	if got, err := s.Read(t.Context(), 4, commitlog.Limit{Records: 1}); err != nil || len(got) != 0 {
		t.Errorf("after the head: got %d records, %v", len(got), err)
	}
}

func readKeepsLimits(t *testing.T, s subject) {
	t.Helper()
	s.mustAppend(t, s.claim(t), 6, 1000)
	for _, tc := range []struct {
		limit commitlog.Limit
		want  int
	}{
		{commitlog.Limit{Records: 100, Bytes: 1 << 20}, 6},
		{commitlog.Limit{Records: 2, Bytes: 1 << 20}, 2},
		{commitlog.Limit{Records: 100, Bytes: 3500}, 3},
		{commitlog.Limit{Records: 100, Bytes: 0}, 1},
	} {
		got, err := s.Read(t.Context(), 0, tc.limit)
		if err != nil || len(got) != tc.want {
			t.Errorf("limit %+v: got %d records, %v, want %d", tc.limit, len(got), err, tc.want)
		}
	}
}

func trimKeepsNewest(t *testing.T, s subject) {
	t.Helper()
	epoch := s.claim(t)
	s.mustAppend(t, epoch, 5, 10)
	trim := func(seq dbaas.Seq) {
		t.Helper()
		if err := s.Trim(t.Context(), seq, 0); err != nil {
			t.Fatal(err)
		}
	}
	trim(2)
	s.wantBounds(t, commitlog.Bounds{Head: dbaas.Head{Seq: 5, Epoch: epoch}, Trimmed: 2})
	trim(1)
	trim(5)
	got, err := s.Head(t.Context())
	if err != nil || got.Head.Seq != 5 || got.Trimmed != 4 {
		t.Errorf("got bounds %+v, %v after trimming all", got, err)
	}
	for after := range dbaas.Seq(5) {
		_, err := s.Read(t.Context(), after, commitlog.Limit{Records: 1})
		if gone := errors.Is(err, dbaas.ErrGone); gone != (after < 4) {
			t.Errorf("read after %d: got %v", after, err)
		}
	}
	if err := s.Append(t.Context(), record(6, epoch, 10)); err != nil {
		t.Errorf("append after trimming: %v", err)
	}
}

// headHasWhatWasStored: a Head that begins after an Append has returned has its entry, also while others call Head, and
// Read returns all of it.
func headHasWhatWasStored(t *testing.T, s subject) {
	t.Helper()
	epoch := s.claim(t)
	var stored atomic.Uint64
	done, asking := make(chan struct{}), sync.WaitGroup{}
	for range 4 {
		asking.Go(func() {
			for {
				want := dbaas.Seq(stored.Load())
				b, err := s.Head(t.Context())
				if err != nil || b.Head.Seq < want || b.Head.Epoch != epoch {
					t.Errorf("got %+v, %v after entry %d was stored", b, err, want)
				}
				records, err := s.Read(t.Context(), 0, commitlog.Limit{Records: 1000, Bytes: 1 << 20})
				if err != nil || dbaas.Seq(len(records)) < b.Head.Seq {
					t.Errorf("got %d records, %v with head %d", len(records), err, b.Head.Seq)
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	for seq := range dbaas.Seq(20) {
		if err := s.Append(t.Context(), record(seq+1, epoch, 10)); err != nil {
			t.Error(err)
			break
		}
		stored.Store(uint64(seq + 1))
	}
	close(done)
	asking.Wait()
}

// closeEndsReads: Close may be called while reads run, and waits for them. Each of them has an answer or an error.
func closeEndsReads(t *testing.T, s subject) {
	t.Helper()
	s.mustAppend(t, s.claim(t), 5, 100_000)
	begun, reading := make(chan struct{}, 8), sync.WaitGroup{}
	for i := range cap(begun) {
		reading.Go(func() {
			for first := true; ; first = false {
				var err error
				if i%2 == 0 {
					_, err = s.Read(t.Context(), 0, commitlog.Limit{Records: 100, Bytes: 8 << 20})
				} else {
					_, err = s.Head(t.Context())
				}
				if first {
					begun <- struct{}{}
				}
				if err != nil {
					return
				}
			}
		})
	}
	for range cap(begun) {
		<-begun
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	reading.Wait()
}
