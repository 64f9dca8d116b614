package httpapi

import (
	"net/http"

	"rideshare/internal/dbaas"
)

// LateHandler holds requests until Set is called. It is for a server whose address must be known before its routes
// can be made. Create it with NewLateHandler.
type LateHandler struct {
	handler http.Handler
	ready   chan struct{} // closed once handler is set
}

// NewLateHandler returns a LateHandler that waits for Set.
func NewLateHandler() *LateHandler { return &LateHandler{ready: make(chan struct{})} }

// Set makes h answer all requests, including the waiting ones. It must be called only once.
func (l *LateHandler) Set(h http.Handler) {
	l.handler = h
	close(l.ready)
}

// ServeHTTP answers one request. A request that ends before Set was not done.
func (l *LateHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	select {
	case <-l.ready:
		l.handler.ServeHTTP(w, r)
	case <-r.Context().Done():
		WriteError(w, r, false, dbaas.Errorf(dbaas.CodeUnavailable, "this part has not started"))
	}
}
