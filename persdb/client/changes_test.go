package client_test

import (
	"log/slog"
	"reflect"
	"testing"

	"rideshare/internal/dbaas"
	"rideshare/internal/testkit/storetest"
	"rideshare/persdb/server"
)

// Through server and client a page of changes is what the store returns: with the parts for the feed, in the size that was
// asked for, and with the bounds of the log where it is gone.
func TestClient_Changes(t *testing.T) {
	s := openStore(t)
	c := to(t, server.New(s, slog.New(slog.DiscardHandler)))
	epoch := storetest.Claim(t, c)
	for i, name := range []string{"ann", "bob", "cat"} {
		storetest.Commit(t, c, epoch, storetest.Op(i+1, "INSERT INTO users VALUES('"+name+"','pw')"))
	}
	for size, wanted := range map[int]int{1: 1, 1 << 20: 2} {
		want, err := s.Changes(t.Context(), 1, 0, size)
		if err != nil || len(want.Entries) != wanted {
			t.Fatalf("got %d entries, %v, want %d", len(want.Entries), err, wanted)
		}
		got, err := c.Changes(t.Context(), 1, 0, size)
		if err != nil || !reflect.DeepEqual(got.Head, want.Head) || len(got.Entries) != wanted || !reflect.DeepEqual(got.Entries[0].Changes, want.Entries[0].Changes) {
			t.Errorf("size %d: got %+v, %v, want %+v", size, got, err, want)
		}
	}
	if page, err := c.Changes(t.Context(), 9, 0, 1); dbaas.CodeOf(err) != dbaas.CodeGone || page.Head.Seq != 3 || page.First != 1 {
		t.Errorf("got %+v, %v, want gone with the bounds", page, err)
	}
}
