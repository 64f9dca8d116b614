package docker_test

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/testkit/testenv"
	"rideshare/orchestrator/launch"
	"rideshare/orchestrator/launch/docker"
)

func awaitEnd(tb testing.TB, l *docker.Launcher, id dbaas.WorkerID) {
	tb.Helper()
	testenv.Eventually(tb, limit, func() error {
		list, err := l.List(tb.Context())
		if err == nil && slices.ContainsFunc(list, func(i launch.Instance) bool { return i.ID == id && i.Running }) {
			err = fmt.Errorf("%s runs", id)
		}
		return err
	})
}

// Times of one worker's life on a real engine, each as its own metric: the start call, the start
// to the first answer of its control API, and SIGKILL to the token that wakes the control loop.
func BenchmarkLife(b *testing.B) {
	e := engine(b)
	l := e.launcher(b, e.config(b))
	caller := &http.Client{Transport: &http.Transport{DialContext: e.dial, DisableKeepAlives: true}}
	var call, serving, event time.Duration
	n := 0
	for b.Loop() {
		n++
		begin := time.Now()
		i, err := l.Start(b.Context(), fmt.Sprint("s", n))
		if err != nil {
			b.Fatal(err)
		}
		call += time.Since(begin)
		testenv.Eventually(b, limit, func() error {
			resp, err := caller.Get(i.Control)
			if err == nil {
				err = resp.Body.Close()
			}
			return err
		})
		serving += time.Since(begin)
		for len(l.Events()) > 0 {
			<-l.Events()
		}
		begin = time.Now()
		go func() { _ = e.sdk.ContainerKill(b.Context(), string(i.ID), "SIGKILL") }()
		<-l.Events()
		event += time.Since(begin)
		awaitEnd(b, l, i.ID)
		if err := l.Remove(b.Context(), i.ID); err != nil {
			b.Fatal(err)
		}
	}
	for name, total := range map[string]time.Duration{"start-call-ms": call, "start-to-answer-ms": serving, "kill-to-event-ms": event} {
		b.ReportMetric(float64(total.Microseconds())/1000/float64(n), name)
	}
}
