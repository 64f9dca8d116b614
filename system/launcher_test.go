package system

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"rideshare/orchestrator/launch"
)

// hungEngine is a launcher whose engine does not answer.
type hungEngine struct{ launch.Launcher }

func (hungEngine) Events() <-chan struct{} { return nil }

func (hungEngine) List(ctx context.Context) ([]launch.Instance, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// An engine that hangs does not take away the launcher's other metrics.
func TestLauncher_EngineHangs_OtherMetricsAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := newLauncher(Config{Log: slog.New(slog.DiscardHandler)}, "token", hungEngine{})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Shutdown()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", http.NoBody)
		r.Header.Set("Authorization", "Bearer token")
		w := httptest.NewRecorder()
		l.Handler().ServeHTTP(w, r)
		if got := w.Body.String(); w.Code != http.StatusOK || !strings.Contains(got, "go_goroutines") || strings.Contains(got, "rideshare_launcher_workers{") {
			t.Errorf("got %d, %s, want the metrics without the workers", w.Code, got)
		}
	})
}
