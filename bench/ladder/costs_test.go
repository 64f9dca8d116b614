package ladder

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// openTwo opens two streams of changes that bring a text each, and end after it if cut is set.
func openTwo(t *testing.T, changes string, cut bool) *consumers {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, changes)
		w.(http.Flusher).Flush()
		if !cut {
			<-r.Context().Done()
		}
	}))
	t.Cleanup(server.Close)
	c, err := openConsumers(t.Context(), server.URL, 2)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.close)
	return c
}

// Streams that bring changes and last until the run leaves them are right.
func TestConsumers_LeftByTheRun_AreRight(t *testing.T) {
	c := openTwo(t, "data: {}\n\n", false)
	err := poll(t.Context(), startPoll, errBehind, func() (bool, error) { return c.bytes[0].Load() > 0 && c.bytes[1].Load() > 0, nil })
	if err != nil {
		t.Fatal(err)
	}
	c.close()
	if err = c.check(); err != nil {
		t.Error(err)
	}
}

// A stream that ends before the run leaves it makes the figures wrong, whatever it has brought.
func TestConsumers_CutOff_IsAnError(t *testing.T) {
	c := openTwo(t, "data: {}\n\n", true)
	c.all.Wait()
	if err := c.check(); err == nil || err.Error() != "2 of 2 streams of changes were cut off" {
		t.Errorf("got %v, want both streams cut off", err)
	}
}

// A stream that brings nothing makes the figures wrong.
func TestConsumers_NoChanges_IsAnError(t *testing.T) {
	c := openTwo(t, "", false)
	c.close()
	if err := c.check(); err == nil || err.Error() != "stream of changes 1 of 2 got nothing" {
		t.Errorf("got %v, want the stream without changes named", err)
	}
}
