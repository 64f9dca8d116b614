// Package settings lets one part ask another for the settings with which it runs: the route of the internal API, its answer,
// and the call.
package settings

import (
	"context"
	"net/http"
	"time"

	"rideshare/internal/rpc"
)

// Path is the route: GET answers the settings as a list.
const Path = "/v1/settings"

// AskTime bounds a call: a part that is away must not delay the answers of the others for long.
const AskTime = time.Second

// Setting is a setting with its value and the value's source: default, environment or flag. The value of a secret is hidden.
type Setting struct {
	Name   string `json:"name"`
	Env    string `json:"env"` // its environment variables
	Value  string `json:"value"`
	Source string `json:"source"`
}

// Part is a part with its settings, or with the reason why they could not be read.
type Part struct {
	// Part is persdb, launcher or worker.
	Part string `json:"part"`
	// Instance is the id of a worker, and otherwise the address or the host's name.
	Instance string    `json:"instance"`
	Settings []Setting `json:"settings,omitempty"`
	Error    string    `json:"error,omitempty"`
}

// Handler answers the route.
func Handler(all []Setting) rpc.Handler {
	return rpc.NoBody(func(context.Context) ([]Setting, error) { return all, nil })
}

// With returns next with the route added.
func With(all []Setting, next http.Handler) http.Handler {
	told := &rpc.Mux{}
	told.Handle("GET "+Path, Handler(all))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == Path {
			told.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// Ask asks the part at an address.
func (p Part) Ask(ctx context.Context, at *rpc.Caller) Part {
	var err error
	p.Settings, err = rpc.Call[[]Setting](ctx, at, rpc.Request{Method: http.MethodGet, Path: Path, Timeout: AskTime}, nil)
	if err != nil {
		p.Error = err.Error()
	}
	return p
}
