package launchtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/lifeline"
	"rideshare/internal/testkit/testenv"
	"rideshare/orchestrator/launch"
)

// StubWorker runs a worker on listener that only does what a StubWorld requests. It returns the worker's exit code once
// the worker is asked to finish.
func StubWorker(listener net.Listener) int {
	terminated := make(chan os.Signal, 1)
	signal.Notify(terminated, syscall.SIGTERM)
	exit := make(chan int, 1)
	var stubborn atomic.Bool
	mux := http.NewServeMux()
	mux.HandleFunc("GET /", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("POST /stubborn", func(http.ResponseWriter, *http.Request) { stubborn.Store(true) })
	mux.HandleFunc("POST /exit", func(_ http.ResponseWriter, r *http.Request) {
		code, _ := strconv.Atoi(r.FormValue("code"))
		exit <- code
	})
	go func() { _ = http.Serve(listener, mux) }() // ends with the process
	for {
		select {
		case <-terminated:
			if !stubborn.Load() {
				return 0
			}
		case code := <-exit:
			return code
		}
	}
}

// Main is the TestMain of a package whose test binary is also its StubWorker: a process with the environment variable
// env runs the worker.
func Main(m *testing.M, env string) {
	if os.Getenv(env) == "" {
		testenv.NoLeaksMain(m)
		return
	}
	listener, err := lifeline.Listener()
	if err != nil {
		panic(err)
	}
	os.Exit(StubWorker(listener)) //nolint:forbidigo // the main function of a process of its own
}

// answerLimit bounds the wait for a stub worker's answer.
const answerLimit = 30 * time.Second

// StubWorld is a World whose workers are StubWorkers.
type StubWorld struct {
	launch.Launcher
	// Dial, if it is set, connects to a control URL's host that this process cannot reach by its name or address.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Start returns when the worker answers, so that it can be asked to finish, or is dead.
func (w StubWorld) Start(ctx context.Context, startID string) (launch.Instance, error) {
	i, err := w.Launcher.Start(ctx, startID)
	if err != nil || !i.Running {
		return i, err
	}
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	for w.request(ctx, http.MethodGet, i.Control) != nil && w.runs(ctx, i.ID) { // not up yet
	}
	return i, ctx.Err()
}

func (w StubWorld) runs(ctx context.Context, id dbaas.WorkerID) bool {
	i, err := w.find(ctx, id)
	return err == nil && i.Running
}

func (w StubWorld) find(ctx context.Context, id dbaas.WorkerID) (launch.Instance, error) {
	list, err := w.List(ctx)
	for _, i := range list {
		if i.ID == id {
			return i, nil
		}
	}
	return launch.Instance{}, errors.Join(fmt.Errorf("worker %s is not listed", id), err)
}

// Exit implements World.
func (w StubWorld) Exit(tb testing.TB, id dbaas.WorkerID, code int) {
	tb.Helper()
	i, err := w.find(tb.Context(), id)
	if err != nil {
		tb.Fatal(err)
	}
	_ = w.request(tb.Context(), http.MethodPost, fmt.Sprintf("%s/exit?code=%d", i.Control, code)) // it may die before it answers
}

// Stubborn implements World.
func (w StubWorld) Stubborn(tb testing.TB, id dbaas.WorkerID) {
	tb.Helper()
	i, err := w.find(tb.Context(), id)
	if err == nil {
		err = w.request(tb.Context(), http.MethodPost, i.Control+"/stubborn")
	}
	if err != nil {
		tb.Fatalf("make %s stubborn: %v", id, err)
	}
}

// request sends a request on a separate connection.
func (w StubWorld) request(ctx context.Context, method, url string) error {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, http.NoBody)
	if err != nil {
		return err
	}
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: w.Dial}}).Do(req)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}
