package httpapi_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"

	"rideshare/internal/httpapi"
)

// A request that arrives before the routes exist waits for them.
func TestLateHandler_RequestBeforeSet_Waits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late := httpapi.NewLateHandler()
		w := httptest.NewRecorder()
		done := make(chan struct{})
		go func() {
			defer close(done)
			late.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", http.NoBody))
		}()
		synctest.Wait()
		select {
		case <-done:
			t.Fatal("answered before there was a handler")
		default:
		}
		late.Set(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }))
		<-done
		if w.Code != http.StatusTeapot {
			t.Errorf("got %d, want the handler's answer", w.Code)
		}
	})
}

// A waiting request ends when its client goes away.
func TestLateHandler_ClientGone_Returns(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	httpapi.NewLateHandler().ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodGet, "/", http.NoBody))
}
