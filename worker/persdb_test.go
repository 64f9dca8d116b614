package worker

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"rideshare/internal/dbaas"
)

// answering is a persdb with the same errors for all calls. A commit takes some time.
type answering struct {
	Store
	head, commit error
	takes        time.Duration
}

func (a *answering) Head(context.Context) (dbaas.Head, error) { return dbaas.Head{}, a.head }

func (a *answering) Commit(context.Context, dbaas.Leadership, []dbaas.Operation) (dbaas.Commit, error) {
	time.Sleep(a.takes)
	return dbaas.Commit{}, a.commit
}

// persdb is lost once it has not answered for persdbPatience, although it was asked, and no longer with its next answer.
func TestWatchedStore_Lost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := &answering{}
		s := &watchedStore{Store: a}
		want := func(lost bool, when string) {
			t.Helper()
			if got := s.lost(); got != lost {
				t.Errorf("%s: got lost: %t, want %t", when, got, lost)
			}
		}
		ask := func(err error) {
			a.head = err
			_, _ = s.Head(t.Context()) // the error is the test's
		}
		commit := func(err error) {
			a.commit = err
			_, _ = s.Commit(t.Context(), dbaas.Leadership{}, nil) // as above
		}
		time.Sleep(time.Hour)
		want(false, "never asked")
		ask(dbaas.ErrUnavailable)
		time.Sleep(persdbPatience - 1)
		ask(dbaas.ErrUnavailable)
		want(false, "not for long")
		time.Sleep(time.Nanosecond)
		want(true, "for long")
		commit(dbaas.ErrUnknown)
		want(true, "still")
		ask(nil)
		want(false, "answered")
		commit(dbaas.ErrUnknown)
		time.Sleep(persdbPatience)
		commit(dbaas.ErrStaleEpoch)
		want(false, "refused by persdb itself")
	})
}

// A long call without an answer does not count for the time in which other calls were answered.
func TestWatchedStore_OneLongCall_IsNoLoss(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := &answering{commit: dbaas.ErrUnknown, takes: 2 * persdbPatience}
		s := &watchedStore{Store: a}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_, _ = s.Commit(t.Context(), dbaas.Leadership{}, nil) // the error is the test's
		}()
		time.Sleep(2*persdbPatience - time.Second)
		_, _ = s.Head(t.Context()) // as above
		<-ended
		if s.lost() {
			t.Error("lost, although it answered a second ago")
		}
	})
}
