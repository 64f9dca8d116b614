package system

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"rideshare/internal/testkit/apitest"
	"rideshare/internal/testkit/testenv"
	"rideshare/orchestrator/scale"
)

// startAll starts the whole system on the data of a folder.
func startAll(t *testing.T, data string) *System {
	t.Helper()
	sys, err := Start(t.Context(), Config{
		Log: slog.New(slog.DiscardHandler), Name: "up", Data: data, Slaves: 1, CallTimeout: 40 * time.Second, HungAfter: time.Minute,
		// After a server has stopped, no other process answers at its address.
		Gateway: testenv.FreeAddress(t), Users: testenv.FreeAddress(t), Rides: testenv.FreeAddress(t), Orchestrator: testenv.FreeAddress(t),
		Scale:     Scale{Settings: scale.Settings{Policy: "reads", Min: 1, Max: 1, ReadsPerSlave: 20}, Period: time.Hour},
		RideRules: RideRules{Now: time.Now, Location: time.UTC},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sys.Close(context.WithoutCancel(t.Context())) })
	if err = sys.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	return sys
}

// Each server stops before the parts that its requests need: as long as it answers, it answers as usual and the requests are
// counted. Rides ask users through the gateway.
func TestSystem_Close_ServersStopBeforeWhatTheyNeed(t *testing.T) {
	data := t.TempDir()
	sys := startAll(t, data)
	urls := sys.URLs()
	apitest.Want(t, urls.Users, "PUT /api/v1/users", `{"username":"ann","password":"`+strings.Repeat("a", 40)+`"}`, apitest.Answer{Status: 201, Body: "{}"})
	const ride = `{"created_by":"ann","timestamp":"01-01-2040:00-00-00","source":1,"destination":2}`
	apitest.Want(t, urls.Rides, "POST /api/v1/rides", ride, apitest.Answer{Status: 201, Body: "{}"})
	created := 1
	closers := sys.closers
	sys.closers = nil
	for _, closer := range slices.Backward(closers) {
		if err := closer(t.Context()); err != nil {
			t.Error(err)
		}
		switch status := statusOf(t, "POST", urls.Rides+"/api/v1/rides", ride); status {
		case 201:
			created++
		case 0:
		default:
			t.Errorf("rides answers %d before it stops", status)
		}
		if status := statusOf(t, "GET", urls.Gateway+"/api/v1/users/ann", ""); status != 200 && status != 0 {
			t.Errorf("the gateway answers %d for users before it stops", status)
		}
	}
	if err := sys.Close(context.WithoutCancel(t.Context())); err != nil {
		t.Error(err)
	}
	apitest.Want(t, startAll(t, data).URLs().Rides, "GET /api/v1/_count", "", apitest.Answer{Status: 200, Body: fmt.Sprintf("[%d]", created)})
}

// statusOf returns the status of an answer, or 0 if the server has stopped.
func statusOf(t *testing.T, method, url, body string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{DisableKeepAlives: true}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return 0
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}
