//go:build failpoint

package failpoint

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
)

// maxAction bounds a request's body: the name of an action.
const maxAction = 64

// ServeHTTP lets other processes arm, disarm and read points.
func (r *registry) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	name := strings.TrimPrefix(req.URL.Path, "/")
	switch req.Method {
	case http.MethodPut:
		action, err := io.ReadAll(io.LimitReader(req.Body, maxAction))
		if err == nil {
			err = r.arm(name, Action(action))
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	case http.MethodDelete:
		r.disarm(name)
		w.WriteHeader(http.StatusNoContent)
	default:
		_ = json.NewEncoder(w).Encode(r.state(name)) // the client has gone
	}
}
