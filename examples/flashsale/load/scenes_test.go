package load

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rideshare/bench/api"
	"rideshare/bench/scene"
)

// service is a service in the same bubble as the scene.
type service http.HandlerFunc

func (s service) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	s(w, r)
	return w.Result(), nil
}

// The scene expire ends and fails when the holds are not swept.
func TestExpire_HoldsAreNotSwept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		unswept := service(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case strings.HasSuffix(r.URL.Path, "/audit"):
				_, _ = fmt.Fprint(w, `{"held":7}`)
			case strings.HasSuffix(r.URL.Path, "/pay"):
				w.WriteHeader(http.StatusGone)
			default:
				w.WriteHeader(http.StatusCreated)
				_, _ = fmt.Fprint(w, `{"id":5,"order":"o"}`)
			}
		})
		r := &run{
			Run:         &scene.Run{Settings: scene.Settings{Scale: 0.01, Stderr: io.Discard}, API: &api.Client{HTTP: &http.Client{Transport: unswept}}},
			connections: 1, ended: map[string]string{},
		}
		r.instances.Use("http://service")
		expire(ctx, r)
		r.Change(func(result *scene.Result) {
			if got, want := fmt.Sprint(result.Check.Wrong.First), "[goods 5: 7 units are held, want 0]"; got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	})
}
