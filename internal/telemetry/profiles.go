package telemetry

import (
	"net/http"
	"net/http/pprof"
)

// Profiles serves the profiles of this process below /debug/pprof/, for `go tool pprof`. They disclose internals and
// take CPU time, so do not serve them publicly.
func Profiles() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return mux
}
