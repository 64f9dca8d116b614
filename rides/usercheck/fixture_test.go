package usercheck_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"sync"
)

// everybody is a fake users service in which every user exists. It records the requested names.
type everybody struct {
	mu    sync.Mutex // guards asked
	asked []string
}

func (e *everybody) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name, err := url.PathUnescape(strings.TrimPrefix(r.URL.EscapedPath(), "/api/v1/users/"))
	if err != nil {
		return
	}
	e.mu.Lock()
	e.asked = append(e.asked, name)
	e.mu.Unlock()
	_ = json.NewEncoder(w).Encode(map[string]string{"username": name})
}

// take returns the names requested since the last call.
func (e *everybody) take() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	asked := e.asked
	e.asked = nil
	return asked
}
