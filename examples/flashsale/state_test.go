package main

import (
	"encoding/json"
	"strconv"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"rideshare/examples/internal/db"
)

// change is a change of goods as the feed sends it.
func change(op string, goods int, after map[string]any) db.Event {
	return db.Event{Changes: []db.Change{{Op: op, Table: "sale_goods", Key: map[string]any{"goods_id": json.Number(strconv.Itoa(goods))}, After: after}}}
}

func free(n int) map[string]any { return map[string]any{"free": json.Number(strconv.Itoa(n))} }

// A flag follows the newest change of free, and does not count while the feed is not connected.
func TestFlags_FollowTheFeed(t *testing.T) {
	f, goods := &soldOutFlags{}, map[int64]bool{1: true}
	if f.has(1) {
		t.Error("before the feed is connected: got sold out, want ask the database")
	}
	for _, step := range []struct {
		name  string
		event db.Event
		want  bool
	}{
		{"Connected", db.Event{}, true},
		{"Restock", change("update", 1, free(5)), false},
		{"LastUnit", change("update", 1, free(0)), true},
		{"OtherColumns", change("update", 1, map[string]any{"held": json.Number("0")}), true},
		{"OtherGoods", change("update", 2, free(3)), true},
		{"Deleted", change("delete", 1, nil), false},
		{"NewWithoutStock", change("insert", 1, free(0)), true},
	} {
		if err := f.apply(step.event, goods); err != nil {
			t.Errorf("%s: %v", step.name, err)
		}
		if got := f.has(1); got != step.want {
			t.Errorf("%s: got sold out %v, want %v", step.name, got, step.want)
		}
	}
	if err := f.apply(change("schema", 1, nil), goods); err == nil {
		t.Error("schema: got no error, want the goods read again")
	}
	f.lose()
	if f.has(1) {
		t.Error("after the feed is lost: got sold out, want ask the database")
	}
}

// A bucket per goods has what the quota gives it at the start, fills with time, and says how long it takes.
func TestRates_BucketPerGoods(t *testing.T) {
	at := time.Unix(1000, 0)
	r := &rates{quota: quota{perSecond: 2, burst: 10, start: 3}, now: func() time.Time { return at }, buckets: map[int64]*rate.Limiter{}}
	for i := range 3 {
		if wait := r.take(1); wait != 0 {
			t.Errorf("order %d: got wait %v, want 0", i, wait)
		}
	}
	if wait := r.take(1); wait != 500*time.Millisecond {
		t.Errorf("beyond the start: got wait %v, want 500ms", wait)
	}
	if wait := r.take(2); wait != 0 {
		t.Errorf("other goods: got wait %v, want 0", wait)
	}
	at = at.Add(time.Hour)
	for range 10 {
		r.take(1)
	}
	if wait := r.take(1); wait == 0 {
		t.Error("beyond the burst: got wait 0")
	}
}

// The buckets are bounded: what a client can name does not fill the memory.
func TestRates_ManyGoods_ShareOneBucket(t *testing.T) {
	at := time.Unix(1000, 0)
	r := &rates{quota: quota{perSecond: 1, burst: 1, start: 1}, now: func() time.Time { return at }, buckets: map[int64]*rate.Limiter{}}
	for goods := range int64(maxBuckets) {
		r.take(goods + 1)
	}
	if wait := r.take(maxBuckets + 1); wait != 0 {
		t.Errorf("the first beyond: got wait %v, want 0", wait)
	}
	if wait := r.take(maxBuckets + 2); wait == 0 || len(r.buckets) > maxBuckets+1 {
		t.Errorf("the second beyond: got wait %v and %d buckets, want the shared one", wait, len(r.buckets))
	}
}

func TestParseQuota(t *testing.T) {
	for text, want := range map[string]quota{
		"off": {}, "flash-1000": {perSecond: 1000, burst: 500_000, start: 50_000}, "0.5:2": {perSecond: 0.5, burst: 2, start: 2},
	} {
		if got, err := parseQuota(text); err != nil || got != want {
			t.Errorf("%s: got %+v, %v, want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "5", "5:", ":5", "0:5", "5:0", "NaN:5", "Inf:5", "x:y", "1:1:1", "5:1.5"} {
		if got, err := parseQuota(text); err == nil {
			t.Errorf("%q: got %+v, want an error", text, got)
		}
	}
}
