package remote_test

import (
	"context"
	"errors"
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
