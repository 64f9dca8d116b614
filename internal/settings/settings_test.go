package settings_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rideshare/internal/rpc"
	"rideshare/internal/settings"
)

// A part tells its settings and answers its other routes as before. A part without the route, or that is away, has an error.
func TestAsk(t *testing.T) {
	all := []settings.Setting{{Name: "--data", Env: "PERSDB_DATA", Value: "./data", Source: "default"}}
	other := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, r.URL.Path)
	})
	telling, silent := httptest.NewServer(settings.With(all, other)), httptest.NewServer(other)
	defer telling.Close()
	defer silent.Close()
	at := &rpc.Caller{Peer: "persdb", Base: telling.URL, HTTP: telling.Client(), MaxAnswer: 1 << 20}
	asked := settings.Part{Part: "persdb", Instance: "h1"}
	want := settings.Part{Part: "persdb", Instance: "h1", Settings: all}
	if diff := cmp.Diff(want, asked.Ask(t.Context(), at)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, tc := range []struct {
		method, path string
		status       int
	}{{http.MethodPost, settings.Path, http.StatusMethodNotAllowed}, {http.MethodGet, "/v1/head", http.StatusNotFound}} {
		w := httptest.NewRecorder()
		telling.Config.Handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), tc.method, tc.path, http.NoBody))
		if w.Code != tc.status {
			t.Errorf("%s %s: got %d, want %d", tc.method, tc.path, w.Code, tc.status)
		}
	}
	at.Base = silent.URL
	if got := asked.Ask(t.Context(), at); got.Error == "" || got.Settings != nil || got.Instance != "h1" {
		t.Errorf("without the route: got %+v, want an error", got)
	}
	silent.Close()
	if got := asked.Ask(t.Context(), at); got.Error == "" || got.Settings != nil {
		t.Errorf("away: got %+v, want an error", got)
	}
}
