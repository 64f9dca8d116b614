package system

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"rideshare/internal/rpc"
	"rideshare/internal/settings"
	"rideshare/orchestrator/launch"
)

// listing is a launcher that only lists.
type listing struct {
	launch.Launcher

	all   []launch.Instance
	err   error
	hangs bool
}

func (l *listing) List(ctx context.Context) ([]launch.Instance, error) {
	if l.hangs {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return l.all, l.err
}

// The settings of the other parts are those of persdb and the launchers, and of every worker that runs. A part that cannot be
// asked has an error. In one process there are no other parts.
func TestSettings_OfTheOtherParts(t *testing.T) {
	tell := func(value string) (settings.Part, string) {
		all := []settings.Setting{{Name: "--data", Value: value, Source: "flag"}}
		s := httptest.NewServer(settings.With(all, http.NotFoundHandler()))
		t.Cleanup(s.Close)
		return settings.Part{Settings: all}, s.URL
	}
	store, storeURL := tell("store")
	worker, workerURL := tell("worker")
	launcher := &listing{all: []launch.Instance{{ID: "w1", Running: true, Control: workerURL}, {ID: "w2"}, {ID: "w3", Running: true, Control: "http://127.0.0.1:1"}}}
	c := &orchestratorParts{backends: &backends{launcher: launcher, control: http.DefaultTransport}}
	if got := c.settings(t.Context()); got == nil || len(got) > 0 {
		t.Errorf("in one process: got %+v, want an empty list", got)
	}
	at := &rpc.Caller{Peer: "persdb", Base: storeURL, HTTP: http.DefaultClient, MaxAnswer: maxSettings}
	c.others = []otherPart{{settings.Part{Part: "persdb", Instance: addressIn(storeURL)}, at}}
	store.Part, store.Instance, worker.Part, worker.Instance = "persdb", storeURL[len("http://"):], "worker", "w1"
	got := c.settings(t.Context())
	if len(got) != 3 || got[2].Instance != "w3" || got[2].Error == "" || got[2].Settings != nil {
		t.Fatalf("got %+v, want three parts, the last with an error", got)
	}
	if diff := cmp.Diff([]settings.Part{store, worker}, got[:2]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	launcher.all, launcher.err = nil, errors.New("away")
	if diff := cmp.Diff([]settings.Part{store, {Part: "worker", Error: "away"}}, c.settings(t.Context())); diff != "" {
		t.Errorf("without a launcher (-want +got):\n%s", diff)
	}
}

// A launcher that does not answer keeps nobody waiting for longer than one call may take, and the settings of persdb are there.
func TestSettings_LauncherHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &http.Client{Transport: transport(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(`[{"name":"--data"}]`))}, nil
		})}
		c := &orchestratorParts{backends: &backends{launcher: &listing{hangs: true}}}
		c.others = []otherPart{{settings.Part{Part: "persdb"}, &rpc.Caller{Peer: "persdb", Base: "http://persdb", HTTP: store, MaxAnswer: maxSettings}}}
		began := time.Now()
		got := c.settings(t.Context())
		if len(got) != 2 || len(got[0].Settings) != 1 || got[1].Error == "" || time.Since(began) > settings.AskTime {
			t.Errorf("after %v: got %+v, want the settings of persdb, and an error for the workers", time.Since(began), got)
		}
	})
}

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// An address has no password.
func TestAddressIn(t *testing.T) {
	for url, want := range map[string]string{"http://h1:9530": "h1:9530", "https://ann:hush@h1:9530": "h1:9530", "unix:///run/l.sock": "/run/l.sock", "http://ann:hush@[": ""} {
		if got := addressIn(url); got != want {
			t.Errorf("%s: got %q, want %q", url, got, want)
		}
	}
}
