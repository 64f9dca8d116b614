package remote_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/httpapi"
	"rideshare/internal/testkit/testenv"
	"rideshare/orchestrator/launch"
	"rideshare/orchestrator/launch/remote"
)

// limit bounds a wait for what must happen.
const limit = 30 * time.Second

func awaitToken(t *testing.T, events <-chan struct{}, why string) {
	t.Helper()
	select {
	case <-events:
	case <-time.After(limit):
		t.Fatalf("no token %s", why)
	}
}

// Every orchestrator learns of what another one did.
func TestLauncher_Events_ReachEveryCaller(t *testing.T) {
	t.Parallel()
	p := newPart(t, "127.0.0.1:0")
	one, other := p.client(t), p.client(t)
	for _, l := range []*remote.Launcher{one, other} {
		awaitToken(t, l.Events(), "after the launcher was found")
	}
	if _, err := one.Start(t.Context(), "s1"); err != nil {
		t.Fatal(err)
	}
	awaitToken(t, one.Events(), "for an own start")
	awaitToken(t, other.Events(), "for another one's start")
}

// What happened while the launcher was away is not known, so its return wakes. Workers live on.
func TestLauncher_LauncherComesBack_WakesAndFindsTheWorkers(t *testing.T) {
	t.Parallel()
	p := newPart(t, httpapi.UnixScheme+filepath.Join(t.TempDir(), "launcher.sock"))
	l := p.client(t)
	i, err := l.Start(t.Context(), "s1")
	if err != nil {
		t.Fatal(err)
	}
	p.close(t)
	if _, err = l.List(t.Context()); !errors.Is(err, launch.ErrUnavailable) {
		t.Errorf("list while it is away: got %v, want %v", err, launch.ErrUnavailable)
	}
	for len(l.Events()) > 0 {
		<-l.Events()
	}
	p.serve(t)
	awaitToken(t, l.Events(), "after the launcher came back")
	testenv.Eventually(t, limit, func() error {
		list, err := l.List(t.Context())
		if err == nil && (len(list) != 1 || list[0].ID != i.ID || !list[0].Running) {
			t.Fatalf("got %+v, want %s, running", list, i.ID)
		}
		return err
	})
}

// Only the launcher's own answers are final. A page of something in front of it neither proves that a worker is dead nor
// that none was started.
func TestLauncher_OtherAnswers_AreUnavailable(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		status int
		body   string
		want   error
	}{
		"Own404":   {http.StatusNotFound, `{"code":"not_found","detail":"no such worker"}`, launch.ErrNoWorker},
		"Own503":   {http.StatusServiceUnavailable, `{"code":"unavailable","detail":"the engine is away"}`, launch.ErrUnavailable},
		"Panic":    {http.StatusInternalServerError, `{"code":"internal"}`, launch.ErrUnavailable},
		"Page404":  {http.StatusNotFound, "404 page not found", launch.ErrUnavailable},
		"Page409":  {http.StatusConflict, "<html>", launch.ErrUnavailable},
		"NoBody":   {http.StatusInternalServerError, "", launch.ErrUnavailable},
		"Page200":  {http.StatusOK, "<html>sign in</html>", launch.ErrUnavailable},
		"Empty200": {http.StatusOK, "", launch.ErrUnavailable},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(tc.status)
			_, _ = w.Write([]byte(tc.body))
		}))
		l, err := remote.New(remote.Config{URL: s.URL})
		if err != nil {
			t.Fatal(err)
		}
		_, start := l.Start(t.Context(), "s1")
		_, list := l.List(t.Context())
		for call, err := range map[string]error{
			"start": start, "list": list, "kill": l.Kill(t.Context(), "w1"), "remove": l.Remove(t.Context(), "w1"), "stop": l.Stop(t.Context(), "w1", 0),
		} {
			if !errors.Is(err, tc.want) {
				t.Errorf("%s, %s: got %v, want %v", name, call, err, tc.want)
			}
		}
		if err = l.Close(t.Context()); err != nil {
			t.Error(err)
		}
		s.Close()
	}
}

// A caller without the token gets an error that says so, and starts nothing.
func TestLauncher_WrongToken_IsRefused(t *testing.T) {
	t.Parallel()
	p := newPart(t, "127.0.0.1:0")
	for _, wrong := range []string{"", "other"} {
		l, err := remote.New(remote.Config{URL: p.url, Token: wrong})
		if err != nil {
			t.Fatal(err)
		}
		_, err = l.Start(t.Context(), "s1")
		if dbaas.CodeOf(err) != dbaas.CodeUnauthorized || !strings.Contains(err.Error(), "token") {
			t.Errorf("token %q: got %v, want an error of code %s that names the token", wrong, err, dbaas.CodeUnauthorized)
		}
		if err = l.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if list, err := p.launcher.List(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("got workers %+v and error %v, want none", list, err)
	}
}

// An address that can never work is refused immediately.
func TestNew_BadAddress(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"", "launcher:9600", "tcp://launcher:9600", "unix://relative", "http://"} {
		if l, err := remote.New(remote.Config{URL: address}); err == nil {
			t.Errorf("%q: got no error", address)
			_ = l.Close(context.Background())
		}
	}
}
