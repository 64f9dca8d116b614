package system

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/httpapi"
	"rideshare/internal/mq"
	"rideshare/internal/testkit/apitest"
	"rideshare/orchestrator/admission"
	"rideshare/orchestrator/dispatch"
	"rideshare/orchestrator/orchestratorapi"
	"rideshare/orchestrator/scale"
)

// callFunc is a bus.
type callFunc func(ctx context.Context, q mq.Queue, body []byte, onReply func([]byte, bool) bool) error

func (f callFunc) Call(ctx context.Context, q mq.Queue, body []byte, onReply func([]byte, bool) bool) error {
	return f(ctx, q, body, onReply)
}

// allServe has every worker.
type allServe struct{}

func (allServe) Slaves() (int, time.Time)            { return 1, time.Time{} }
func (allServe) Master() (bool, time.Time)           { return true, time.Time{} }
func (allServe) Gone(dbaas.WorkerID, time.Time) bool { return false }
func silent(ctx context.Context) error               { <-ctx.Done(); return ctx.Err() }
func failing(err error) func(ctx context.Context) error {
	return func(context.Context) error { return err }
}

// A client learns from the answer why it was refused: each reason of the later stages, through the API, the gate and the
// dispatcher.
func TestAdmission_ReasonsInAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		path   string
		bus    func(ctx context.Context) error
		depth  int // of the write queue
		before int // requests that are in flight; INFLIGHT is 1
		status int
		after  time.Duration
		retry  bool // Retry-After is there
	}{
		dbaas.ReasonInflight:              {"read", silent, 0, 1, http.StatusServiceUnavailable, 0, true},
		dbaas.ReasonDepthWait:             {"write", silent, 5001, 0, http.StatusServiceUnavailable, 1500 * time.Millisecond, true},
		dbaas.ReasonQueueFull:             {"write", failing(fmt.Errorf("publish: %w", mq.ErrRefused)), 0, 0, http.StatusServiceUnavailable, 0, true},
		dbaas.ReasonUnroutable:            {"write", failing(fmt.Errorf("publish: %w", mq.ErrUnroutable)), 0, 0, http.StatusServiceUnavailable, 0, true},
		dbaas.ReasonDeadline:              {"read", silent, 0, 0, http.StatusGatewayTimeout, 5 * time.Second, false},
		dbaas.ReasonDeadline + " (write)": {"write", silent, 0, 0, http.StatusGatewayTimeout, 5 * time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				settings := admission.Defaults()
				settings.Inflight = 1
				api := gated(t, settings, c.bus, c.depth)
				for range c.before {
					go send(t, api, c.path)
				}
				time.Sleep(time.Millisecond) // it passes the stages; a sample of the depth is taken
				began := time.Now()
				answer := send(t, api, c.path)
				var p httpapi.Problem
				if err := json.Unmarshal(answer.Body.Bytes(), &p); err != nil {
					t.Fatalf("got %s: %v", answer.Body, err)
				}
				reason, _, _ := strings.Cut(name, " ")
				if answer.Code != c.status || p.Reason != reason || (answer.Header().Get("Retry-After") != "") != c.retry {
					t.Errorf("got %d %s, Retry-After %q, want %d with reason %s", answer.Code, answer.Body, answer.Header().Get("Retry-After"), c.status, reason)
				}
				if took := time.Since(began); took != c.after {
					t.Errorf("answered after %v of the bubble's time, want %v", took, c.after)
				}
			})
		})
	}
}

// gated returns the API with a gate and a dispatcher on a bus. They end with the test.
func gated(t *testing.T, settings admission.Settings, bus func(ctx context.Context) error, depth int) http.Handler {
	t.Helper()
	d := behindGate(t, settings, depth, dispatch.Config{
		Caller: callFunc(func(ctx context.Context, _ mq.Queue, _ []byte, _ func([]byte, bool) bool) error { return bus(ctx) }),
	})
	return orchestratorapi.New(orchestratorapi.Config{Log: slog.New(slog.DiscardHandler), Dispatcher: d, Admission: d.gate, Cluster: cluster{}})
}

// behindGate returns a dispatcher behind a gate. Both end with the test.
func behindGate(t *testing.T, settings admission.Settings, depth int, cfg dispatch.Config) admittedDispatcher {
	t.Helper()
	gate, err := admission.New(admission.Config{
		Log: slog.New(slog.DiscardHandler), Settings: settings, CallTimeout: 5 * time.Second, Broker: func() bool { return true },
		Master: allServe{}.Master, Slaves: allServe{}.Slaves,
		Ready: func(context.Context) (int, error) { return depth, nil }, Unanswered: func() int { return 0 },
	})
	if err != nil {
		t.Fatal(err)
	}
	cfg.Availability, cfg.Gate, cfg.ResendPause = allServe{}, gate.Check, -1
	d := dispatch.New(cfg)
	ctx, cancel := context.WithCancel(t.Context())
	go gate.Run(ctx)
	t.Cleanup(func() {
		cancel()
		_ = d.Close(ctx) // what is in flight ends with an error.
	})
	return admittedDispatcher{d, gate}
}

// Requests that end before they were sent, since persdb has not told the newest position, say nothing about the workers.
func TestAdmission_UnknownPosition_OpensNoBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := behindGate(t, admission.Defaults(), 0, dispatch.Config{
			Head: func(context.Context) (dbaas.Head, error) { return dbaas.Head{}, mq.ErrUnavailable },
		})
		var all sync.WaitGroup
		deadline := time.Now().Add(time.Second)
		for range 20 {
			all.Go(func() {
				if _, err := d.Read(t.Context(), dbaas.Read{Deadline: deadline, Recent: true}); dbaas.CodeOf(err) != dbaas.CodeUnavailable {
					t.Errorf("got %v from a read", err)
				}
			})
			all.Go(func() {
				if _, err := d.Write(t.Context(), dbaas.Operation{Deadline: deadline}); dbaas.CodeOf(err) != dbaas.CodeUnavailable {
					t.Errorf("got %v from a write", err)
				}
			})
		}
		all.Wait()
		for name, b := range d.gate.Breakers() {
			if b.State != admission.Closed.String() {
				t.Errorf("breaker %s is %s: %s", name, b.State, b.Why)
			}
		}
	})
}

// durable is a publisher to a broker that keeps every message.
type durable struct{}

func (durable) Durable() bool                                       { return true }
func (durable) Publish(context.Context, mq.Queue, mq.Message) error { return nil }

// The messages of queued writes count for the mean number of operations in a message.
func TestAdmission_QueuedWrites_CountForTheMean(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := behindGate(t, admission.Defaults(), 50, dispatch.Config{Publisher: durable{}})
		for range 99 {
			if _, err := d.Enqueue(t.Context(), dbaas.Operation{}); err != nil {
				t.Fatal(err)
			}
		}
		d.gate.SentMessage(101)
		time.Sleep(time.Second) // a sample is taken
		if got := d.gate.Depth(); got != 100 {
			t.Errorf("got a depth of %d operations for 50 messages of 2 on average, want 100", got)
		}
	})
}

// Queued writes close the master's breaker: a system that gets no other writes must not stay half-open, where it takes five at a time.
func TestAdmission_QueuedWrites_CloseTheMastersBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := behindGate(t, admission.Defaults(), 0, dispatch.Config{
			Publisher: durable{},
			Caller:    callFunc(func(context.Context, mq.Queue, []byte, func([]byte, bool) bool) error { return mq.ErrReplyLost }),
		})
		for range 20 {
			_, _ = d.Write(t.Context(), dbaas.Operation{})
		}
		time.Sleep(2100 * time.Millisecond)
		for range 5 {
			if _, err := d.Enqueue(t.Context(), dbaas.Operation{}); err != nil {
				t.Fatal(err)
			}
		}
		if got := d.gate.Breakers()["master"].State; got != admission.Closed.String() {
			t.Errorf("got %s after five queued writes, want closed", got)
		}
	})
}

// send sends a read or a write.
func send(t *testing.T, api http.Handler, path string) *httptest.ResponseRecorder {
	t.Helper()
	body := `{"table":"users","columns":["username"]}`
	if path == "write" {
		body = `{"query":"insert","table":"t","values":{"n":1}}`
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/api/v1/db/"+path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/problem+json")
	w := httptest.NewRecorder()
	api.ServeHTTP(w, r)
	return w
}

// What waits and what is in flight count for the limit of a lane.
func TestLaneStatus(t *testing.T) {
	got := laneStatus([]dispatch.LaneStats{{Lane: "point", Waiting: 2, InFlight: 1, HandedOver: 3, Limit: 9}})
	if want := (admission.LaneStatus{Now: 5, Limit: 9, Waiting: 2}); len(got) != 1 || got["point"] != want {
		t.Errorf("got %v, want %v", got, want)
	}
}

// Settings of the lanes that PATCH changes reach the dispatcher. Through gateway, users and rides the orchestrator learns who
// the client is.
func TestAdmission_LanesAndUsersOfTheWholeSystem(t *testing.T) {
	settings := admission.Defaults()
	const anyPort = "127.0.0.1:0"
	sys, err := Start(t.Context(), Config{
		Log: slog.New(slog.DiscardHandler), Name: "one", Data: t.TempDir(), Slaves: 1, CallTimeout: 40 * time.Second, HungAfter: time.Minute, Admission: &settings,
		Gateway: anyPort, Users: anyPort, Rides: anyPort, Orchestrator: anyPort, Lanes: admission.Lanes{Write: admission.LaneSetting{Limit: 77}},
		Scale:     Scale{Settings: scale.Settings{Policy: "reads", Min: 1, Max: 1, ReadsPerSlave: 20}, Period: time.Hour},
		RideRules: RideRules{Now: time.Now, Location: time.UTC},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if closeErr := sys.Close(context.WithoutCancel(t.Context())); closeErr != nil {
			t.Error(closeErr)
		}
	})
	if err = sys.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	url := sys.URLs().Orchestrator + "/api/v1/admission"
	shown := func() (status admission.Status) {
		t.Helper()
		if decodeErr := json.Unmarshal([]byte(apitest.OK(t, http.MethodGet, url, "")), &status); decodeErr != nil {
			t.Fatal(decodeErr)
		}
		return status
	}
	limits := func(want int) {
		t.Helper()
		if lanes := shown().Lanes; len(lanes) != 4 || lanes[writeLane].Limit != want {
			t.Errorf("got lanes %v, want 4, and the limit %d of writes", lanes, want)
		}
	}
	limits(77)
	if got := apitest.Do(t, http.MethodPatch, url, `{"lanes":{"write":5}}`); got.Status != http.StatusOK {
		t.Errorf("got %d %s", got.Status, got.Body)
	}
	limits(5)
	apitest.Do(t, http.MethodPatch, url, `{"lanes":null}`)
	limits(77)

	gateway := sys.URLs().Gateway
	apitest.Do(t, http.MethodPut, gateway+"/api/v1/users", `{"username":"u1","password":"`+strings.Repeat("a", 40)+`"}`, httpapi.HeaderUser, "ann")
	ride := apitest.Do(t, http.MethodPost, gateway+"/api/v1/rides", `{"created_by":"u1","timestamp":"01-01-2040:00-00-00","source":"1","destination":"2"}`, httpapi.HeaderUser, "bob")
	if ride.Status != http.StatusCreated {
		t.Errorf("got %d %s", ride.Status, ride.Body)
	}
	requests := map[string]uint64{}
	for _, u := range shown().Users {
		requests[u.User] = u.Requests
	}
	if requests["ann"] < 1 || requests["bob"] < 2 { // the insert; the look-up of the creator by users, and the insert by rides
		t.Errorf("got requests by user %v, want those of ann and bob", requests)
	}
}
