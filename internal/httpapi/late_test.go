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

// A waiting request is refused when its client goes away, or when the server ends before there are routes.
func TestLateHandler_NeverSet_Refuses(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := httptest.NewRecorder()
	httpapi.NewLateHandler().ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/", http.NoBody))
	if w.Code != http.StatusServiceUnavailable {
		t.Errorf("got %d, want 503", w.Code)
	}
}
