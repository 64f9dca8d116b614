package httpapi

import (
	"net/http"
	"sync/atomic"
)

// LateHandler answers 503 until Set tells it what to do: for a server whose
// address must be known before its routes can be made.
type LateHandler struct {
	handler atomic.Pointer[http.Handler]
}

// Set makes h answer from now on.
func (l *LateHandler) Set(h http.Handler) { l.handler.Store(&h) }

// ServeHTTP answers one request.
func (l *LateHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h := l.handler.Load(); h != nil {
		(*h).ServeHTTP(w, r)
		return
	}
	w.Header().Set("Retry-After", "1")
	http.Error(w, "starting", http.StatusServiceUnavailable)
}
