package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"rideshare/internal/testkit/pgtest"
	"rideshare/internal/testkit/testenv"
)

// startTwo starts a system with two instances of persdb on one log. It also returns a function that starts one of them
// again.
func startTwo(t *testing.T, place *pgtest.Place) (p *parts, addresses map[string]string, start func(name string)) {
	t.Helper()
	p = newParts(t)
	addresses = map[string]string{"persdb": p.persdb, "second": testenv.FreeAddress(t)}
	for i, arg := range p.stack {
		if arg == "http://"+p.persdb {
			p.stack[i] += ",http://" + addresses["second"]
		}
	}
	start = func(name string) {
		t.Helper()
		p.startAs(t, name, "persdb", "--listen", addresses[name], "--data", p.path(name+"-data"), "--log", place.URL, "--log-password-file", place.PasswordFile)
	}
	start("persdb")
	p.startLauncher(t)
	p.startOrchestrator(t)
	p.ready(t)
	start("second")
	waitReady(t, addresses["second"], `"active":`)
	return p, addresses, start
}

// waitReady waits until the readiness of an instance contains what.
func waitReady(t *testing.T, address, what string) {
	t.Helper()
	testenv.Eventually(t, startLimit, func() error {
		answer, err := text(http.Get("http://" + address + "/readyz"))
		if err == nil && !strings.Contains(answer, what) {
			err = fmt.Errorf("got %s, want %s", answer, what)
		}
		return err
	})
}

// activeOf returns the active instance, which on a busy machine may be another one than expected.
func activeOf(t *testing.T, addresses map[string]string) (active string) {
	t.Helper()
	testenv.Eventually(t, startLimit, func() error {
		for name, address := range addresses {
			if answer, err := text(http.Get("http://" + address + "/readyz")); err == nil && strings.Contains(answer, `"active":true`) {
				active = name
				return nil
			}
		}
		return errors.New("no instance is active")
	})
	return active
}

// wantCounted waits until the table has the numbers 0 to n-1, each once.
func (p *parts) wantCounted(t *testing.T, n int) {
	t.Helper()
	want := fmt.Sprintf("[[%d,%d]]", n, n)
	testenv.Eventually(t, startLimit, func() error {
		answer, err := text(http.Get("http://" + p.orchestrator + "/db/query?level=linearizable&q=SELECT%20count(*),count(DISTINCT%20n)%20FROM%20counted"))
		if err == nil && !strings.Contains(answer, want) {
			t.Fatalf("got %s, want %s", answer, want)
		}
		return err
	})
}

// load sends writes from several callers concurrently, and returns a function that waits until all are acknowledged.
func (p *parts) load(t *testing.T, from, callers, each int) (acknowledged func()) {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		done <- together(callers, func(i int) error {
			for n := range each {
				number := from + i*each + n
				p.write(t, fmt.Sprint("key-", number), fmt.Sprintf("INSERT INTO counted VALUES(%d)", number))
			}
			return nil
		})
	}()
	return func() {
		t.Helper()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
}

// While writes go on, the active instance of two is killed or paused, several times: the other one takes over, nothing
// acknowledged is lost or doubled, and the instance that comes back follows.
func TestPersdb_TwoInstances_TheOtherTakesOver(t *testing.T) {
	t.Parallel()
	p, addresses, start := startTwo(t, pgtest.Shared(t))
	p.write(t, "table", "CREATE TABLE counted(n INTEGER)")
	const rounds, callers, each = 6, 4, 10
	for round := range rounds {
		active := activeOf(t, addresses)
		began := time.Now()
		acknowledged := p.load(t, round*callers*each, callers, each)
		paused := round%3 == 2
		if paused {
			if err := p.processes[active].signal(syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
		} else {
			p.kill(t, active)
		}
		acknowledged()
		t.Logf("paused: %t, all acknowledged after %v", paused, time.Since(began))
		if paused {
			if err := p.processes[active].signal(syscall.SIGCONT); err != nil {
				t.Fatal(err)
			}
		} else {
			start(active)
		}
		waitReady(t, addresses[active], `"active":`)
	}
	p.wantCounted(t, rounds*callers*each)
}
