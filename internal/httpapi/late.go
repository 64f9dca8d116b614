package httpapi

import "net/http"

// LateHandler lets requests wait until Set tells it what to do: for a server whose
// address must be known before its routes can be made. Make it with NewLateHandler.
type LateHandler struct {
	handler http.Handler
	ready   chan struct{} // closed once handler is set
}

// NewLateHandler returns a LateHandler that waits for Set.
func NewLateHandler() *LateHandler { return &LateHandler{ready: make(chan struct{})} }

// Set makes h answer, also what waits. It is called once.
func (l *LateHandler) Set(h http.Handler) {
	l.handler = h
	close(l.ready)
}

// ServeHTTP answers one request, or leaves it when its client does.
func (l *LateHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	select {
	case <-l.ready:
		l.handler.ServeHTTP(w, r)
	case <-r.Context().Done():
	}
}
