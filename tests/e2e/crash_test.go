package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
)

// crash/slave kills the slave with the highest pid and crash/master the master; each answers the pid, and soon there are as
// many workers as before.
func TestCrash_EachRole_AnswersItsPidAndIsReplaced(t *testing.T) {
	sys := start(t, setup{flags: []string{"--slaves", "2"}})
	sys.awaitSlaves(t, 2)
	sys.PutUser(t, "ann")
	for _, role := range []string{"slave", "master", "master", "slave"} {
		before, workers := sys.Cluster(t), sys.Workers(t)
		want := before.pids(role)
		pid := sys.Crash(t, role)
		eventually(t, againLimit, func() error { // a write too may be refused after any worker's death
			a, err := sys.Try(t.Context(), "DELETE", sys.userURL("nobody at all"), "")
			return errors.Join(err, a.check(http.StatusBadRequest, anyBody))
		})
		if len(want) == 0 || pid != want[len(want)-1] {
			t.Errorf("crash/%s: got pid %d, want the last of %v", role, pid, want)
		}
		if got := sys.Workers(t); slices.Contains(got, pid) {
			t.Errorf("worker/list after crash/%s: got %v, want it without %d", role, got, pid)
		}
		sys.awaitSlaves(t, 2)
		sys.AwaitService(t)
		after := sys.Cluster(t)
		if masters := after.pids("master"); len(masters) != 1 {
			t.Errorf("masters after crash/%s: got %v, want one", role, masters)
		} else if role == "master" && masters[0] != before.pids("slave")[0] {
			t.Errorf("new master: got pid %d, want the lowest slave of %v", masters[0], before.pids("slave"))
		}
		if role == "master" && after.Epoch <= before.Epoch {
			t.Errorf("epoch after a new master: got %d, want above %d", after.Epoch, before.Epoch)
		}
		if started := slices.DeleteFunc(sys.Workers(t), func(p int) bool { return slices.Contains(workers, p) }); len(started) != 1 {
			t.Errorf("new workers after crash/%s: got %v, want one", role, started)
		}
	}
	sys.Get(t, sys.usersURL()).expect(t, http.StatusOK, `["ann"]`)
	sys.PutUser(t, "bob")
}

// Slaves that die faster than workers may be started are replaced one by one, each after some seconds and not after a minute.
// The cluster's state, the metric and the log show the delay.
func TestCrash_FasterThanStartsAreAllowed_ReplacedOneByOne(t *testing.T) {
	sys := start(t, setup{owned: true, env: []string{"STARTS_PER_MINUTE=6"}})
	eventually(t, againLimit, func() error {
		sys.Post(t, sys.db("/api/v1/crash/slave"), "") // 400 while none is there
		if c := sys.Cluster(t); c.StartsHeldBack == 0 {
			return fmt.Errorf("got %s, want a start that is held back", toJSON(c))
		}
		return nil
	})
	sys.AwaitService(t)
	if c := sys.Cluster(t); c.StartsHeldBack != 0 {
		t.Errorf("with a slave: got %s, want no start held back", toJSON(c))
	}
	metrics := sys.Get(t, sys.db("/metrics")).Body
	if name := "\nrideshare_worker_starts_held_back_total "; !strings.Contains(metrics, name) || strings.Contains(metrics, name+"0\n") {
		t.Errorf("%q has not counted", name)
	}
	text, err := os.ReadFile(sys.logFile())
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), `"starts held back"`); n != 1 {
		t.Errorf("lines of starts held back: got %d, want 1", n)
	}
}

// Without a worker to kill the answer is 400 and `{}`. The second of two crashes finds either a worker that was started in
// between, or none.
func TestCrash_InARow_AnswersAPidOrNone(t *testing.T) {
	sys := start(t, setup{})
	for _, role := range []string{"slave", "master"} {
		killed := map[string]bool{}
		for range 20 {
			a := sys.Post(t, sys.db("/api/v1/crash/"+role), "")
			switch {
			case a.Status == http.StatusOK && !killed[a.Body]:
				killed[a.Body] = true
			case a.Status == http.StatusBadRequest && a.Body == "{}":
			default:
				t.Errorf("crash/%s after %v: got %d %s, want a new pid, or 400 {}", role, killed, a.Status, a.Body)
			}
		}
		if len(killed) == 0 {
			t.Errorf("crash/%s: killed nothing", role)
		}
		sys.AwaitService(t)
	}
	sys.PutUser(t, "ann")
}

// While workers die, no call hangs and none gets 500: calls are answered, or refused with 503 and Retry-After or with 504,
// until the system is whole again.
func TestCrash_WhileCalled_AnswersAreOnlyTheAgreedOnes(t *testing.T) {
	sys := start(t, setup{})
	sys.PutUser(t, "ann")
	for round := range 3 {
		for _, role := range []string{"slave", "master"} {
			sys.Crash(t, role)
			err := together(8, func(i int) error {
				name := fmt.Sprintf("u-%d-%s-%d", round, role, i)
				for _, x := range []exchange{
					{method: "GET", url: sys.userURL("ann"), status: http.StatusOK},
					{method: "PUT", url: sys.usersURL(), body: userBody(name), status: http.StatusCreated},
					{method: "GET", url: sys.ridesURL() + "/count", status: http.StatusOK},
				} {
					if err := sys.agreed(t.Context(), x); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
			sys.AwaitService(t)
		}
	}
}

// agreed sends x and returns what is wrong if the answer is neither the wanted
// one nor one that an outage may have.
func (s *system) agreed(ctx context.Context, x exchange) error {
	a, err := s.Try(ctx, x.method, x.url, x.body)
	switch {
	case err != nil:
		return err
	case a.Status == x.status, a.Status == http.StatusGatewayTimeout:
		return nil
	case a.Status == http.StatusServiceUnavailable && a.Header.Get("Retry-After") != "":
		return nil
	}
	return fmt.Errorf("%s %s: got %d %v %.200s, want %d, 504, or 503 with Retry-After", x.method, x.url, a.Status, a.Header, a.Body, x.status)
}
