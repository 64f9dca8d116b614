package history_test

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"rideshare/tests/history"
)

const limit = 10 * time.Second

func write(value string) history.Call {
	return history.Call{Kind: history.Write, Key: "r", Value: value}
}

var (
	read    = history.Call{Kind: history.Read, Key: "r"}
	members = history.Call{Kind: history.Members, Key: "s"}
)

func add(value string) history.Call {
	return history.Call{Kind: history.Add, Key: "s", Value: value}
}

func value(v string) history.Answer                             { return history.Answer{Value: v} }
func set(members ...string) history.Answer                      { return history.Answer{Members: members} }
func do(c *history.Client, call history.Call, a history.Answer) { c.Begin(call).Answered(a) }

// A history of writes is linearizable whatever the database did, so the reads of each client count, also those after a write
// of unknown outcome.
func TestWantReads_Histories_WantsReadsOfEachClient(t *testing.T) {
	both := func(r *history.Recorder) {
		for range 2 {
			c := r.Client()
			do(c, read, value(""))
			c.Unknown(c.Begin(write("1")))
			do(c, members, set())
		}
	}
	for name, one := range map[string]struct {
		play func(r *history.Recorder)
		ok   bool
	}{
		"Enough": {ok: true, play: both},
		"WritesAlone": {play: func(r *history.Recorder) {
			c := r.Client()
			for range 100 {
				do(c, write("1"), value(""))
				do(c, add("1"), set())
			}
		}},
		"OneClientHasNone": {play: func(r *history.Recorder) {
			both(r)
			c := r.Client()
			for range 2 {
				c.Begin(read).Refused()
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			r := history.New()
			one.play(r)
			if err := r.WantReads(2); (err == nil) != one.ok {
				t.Errorf("got %v, want enough %v", err, one.ok)
			}
		})
	}
}

// Histories that one database could have given are accepted, all others are not.
func TestCheck_Histories_AcceptsExactlyTheLinearizable(t *testing.T) {
	swap := history.Call{Kind: history.Swap, Key: "r", Old: "1", Value: "2"}
	for name, one := range map[string]struct {
		play func(a, b *history.Client)
		ok   bool
	}{
		"ReadsWhatWasWritten": {ok: true, play: func(a, b *history.Client) {
			do(a, write("1"), value(""))
			do(b, read, value("1"))
		}},
		"LostWrite": {play: func(a, b *history.Client) {
			do(a, write("1"), value(""))
			do(b, read, value(""))
		}},
		"WriteTakesEffectTwice": {play: func(a, b *history.Client) {
			do(a, write("1"), value(""))
			do(a, write("2"), value(""))
			do(b, read, value("1"))
		}},
		"UnknownWriteSeenLater": {ok: true, play: func(a, b *history.Client) {
			a.Unknown(a.Begin(write("1")))
			do(b, read, value(""))
			do(b, read, value("1"))
		}},
		"UnknownWriteNeverSeen": {ok: true, play: func(a, b *history.Client) {
			a.Unknown(a.Begin(write("1")))
			do(b, read, value(""))
		}},
		"UnknownWriteSeenAndGoneAgain": {play: func(a, b *history.Client) {
			a.Unknown(a.Begin(write("1")))
			do(b, read, value("1"))
			do(b, read, value(""))
		}},
		"RefusedWriteSeen": {play: func(a, b *history.Client) {
			a.Begin(write("1")).Refused()
			do(b, read, value("1"))
		}},
		"OverlappingReadsInEitherOrder": {ok: true, play: func(a, b *history.Client) {
			w := a.Begin(write("1"))
			do(b, read, value(""))
			do(b, read, value("1"))
			w.Answered(value(""))
		}},
		"SwapFindsWhatIsThere": {ok: true, play: func(a, b *history.Client) {
			do(a, write("1"), value(""))
			do(b, swap, history.Answer{Done: true})
			do(a, read, value("2"))
		}},
		"SwapTwice": {play: func(a, b *history.Client) {
			do(a, write("1"), value(""))
			do(a, swap, history.Answer{Done: true})
			do(b, swap, history.Answer{Done: true})
		}},
		"SetHasAllAdded": {ok: true, play: func(a, b *history.Client) {
			do(a, add("y"), set())
			do(b, add("x"), set())
			do(a, members, set("y", "x"))
		}},
		"SetLacksOne": {play: func(a, b *history.Client) {
			do(a, add("x"), set())
			do(b, add("y"), set())
			do(a, members, set("y"))
		}},
		"SetHasOneTwice": {play: func(a, _ *history.Client) {
			do(a, add("x"), set())
			do(a, members, set("x", "x"))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			r := history.New()
			one.play(r.Client(), r.Client())
			err := r.Check(limit)
			var bad *history.NotLinearizableError
			if one.ok && err != nil || !one.ok && !errors.As(err, &bad) {
				t.Fatalf("check: got %v, want linearizable %v", err, one.ok)
			}
			if one.ok {
				return
			}
			var page bytes.Buffer
			if err := bad.Draw(&page); err != nil || !bytes.Contains(page.Bytes(), []byte("<html")) {
				t.Errorf("page: got %d bytes, %v, want HTML", page.Len(), err)
			}
			if len(bad.Keys) != 1 {
				t.Errorf("keys: got %v, want the one", bad.Keys)
			}
		})
	}
}
