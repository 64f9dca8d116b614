package client

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"rideshare/internal/testkit/testenv"
)

// The difference of the clocks is wrong by half the time of a call at most, so the shortest of the last minute counts. Calls
// that wait, and answers without a time, say nothing.
func TestClock_ShortestRecentCallCounts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const ahead = -3 * time.Second
		c := &clock{}
		// call is one whose request takes there and whose answer takes back.
		call := func(there, back time.Duration) {
			sent := time.Now()
			<-time.After(there)
			received := time.Now().Add(ahead)
			<-time.After(back)
			c.sample(strconv.FormatInt(received.UnixMicro(), 10), sent, time.Now())
		}
		want := func(what string, off time.Duration) {
			t.Helper()
			if got, ok := c.difference(time.Now()); !ok || got != ahead+off {
				t.Errorf("%s: got %v, %v, want %v", what, got, ok, ahead+off)
			}
		}
		call(longestSample, time.Millisecond)
		c.sample("", time.Now(), time.Now())
		if _, ok := c.difference(time.Now()); ok {
			t.Error("after a long call and an answer without a time: got an estimate, want none")
		}
		call(40*time.Millisecond, 0)
		want("the first call", 20*time.Millisecond)
		call(0, 100*time.Millisecond)
		want("after a longer call", 20*time.Millisecond)
		call(time.Millisecond, time.Millisecond)
		want("after a shorter call", 0)
		<-time.After(clockWindow)
		call(0, 100*time.Millisecond)
		want("a minute later", -50*time.Millisecond)
		<-time.After(2 * clockWindow)
		if _, ok := c.difference(time.Now()); ok {
			t.Error("long after the last call: got an estimate, want none")
		}
	})
}

// A client has a sample of the server that answered last.
func TestClient_ClockDifference(t *testing.T) {
	t.Parallel()
	const ahead = 70 * time.Second
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(HeaderTime, strconv.FormatInt(time.Now().Add(ahead).UnixMicro(), 10))
		_, _ = w.Write([]byte("{}"))
	}))
	defer server.Close()
	c, err := New(Config{URL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if _, ok := c.ClockDifference(); ok {
		t.Error("before a call: got an estimate, want none")
	}
	testenv.Eventually(t, time.Minute, func() error { // a slow call is no sample
		_, failed := c.Sizes(t.Context())
		if got, ok := c.ClockDifference(); failed == nil && (!ok || (got-ahead).Abs() > longestSample) {
			failed = fmt.Errorf("got %v, %v, want about %v", got, ok, ahead)
		}
		return failed
	})
}
