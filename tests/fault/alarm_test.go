package fault_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"rideshare/internal/testkit/testenv"
)

// alarm is a state in which the broker takes no messages from publishers. Arguments of rabbitmqctl begin and end it.
type alarm struct{ begin, end []string }

var (
	memoryAlarm = alarm{[]string{"set_vm_memory_high_watermark", "0.0000001"}, []string{"set_vm_memory_high_watermark", "0.4"}}
	diskAlarm   = alarm{[]string{"set_disk_free_limit", "1000000GB"}, []string{"set_disk_free_limit", "50MB"}}
)

const (
	// alarmDeadline is the deadline of a call. refusalLimit bounds the time until the first refusal after the broker has begun
	// to take no messages: a refusal must not wait for the deadline.
	alarmDeadline = 10 * time.Second
	refusalLimit  = alarmDeadline - 2*time.Second
	// moreGoroutines is by how much the number of goroutines of a process may grow under an alarm: far fewer than the requests that
	// the load sends during the alarm, and more than all its clients need.
	moreGoroutines = 100
)

func (a alarm) raise(rabbit *testenv.Service) func(testing.TB) {
	return func(tb testing.TB) {
		tb.Helper()
		rabbit.Ctl(tb, a.begin...)
	}
}

func (a alarm) clear(rabbit *testenv.Service) func(testing.TB) {
	return func(tb testing.TB) {
		tb.Helper()
		rabbit.Ctl(tb, a.end...)
	}
}

// lasts raises the alarm under load. Calls are soon refused with 503 and Retry-After, and with nothing else once the calls in
// flight have ended. No goroutines pile up. After the alarm, calls are answered again.
func (a alarm) lasts(t *testing.T, l *load) {
	t.Helper()
	alerts, before := l.sys.watchAlerts(t), l.sys.goroutines(t)
	a.raise(l.sys.rabbit)(t)
	defer a.clear(l.sys.rabbit)(t)
	l.sys.refusedSoon(t)
	l.awaitRefusal(t)
	alerts.Await(t, "RideshareBrokerBlocks")
	outlast(t, 2*alarmDeadline)
	unknown := l.unknown.Load()
	l.awaitRefusal(t)
	if more := l.unknown.Load() - unknown; more > 0 {
		t.Errorf("under an alarm that has lasted: %d answers of 504, want 503 only", more)
	}
	after := l.sys.goroutines(t)
	t.Logf("goroutines: %v before the alarm, %v under it", before, after)
	for process, now := range after {
		if now > before[process]+moreGoroutines {
			t.Errorf("goroutines of %s under the alarm: got %v, had %v", process, now, before[process])
		}
	}
}

// refusedSoon waits until the orchestrator knows that the broker takes no messages, and then for the first refusal of a write
// and of a read. Requests that are sent before all parts know it may wait until their deadline, so more requests are sent while
// they wait.
func (s *system) refusedSoon(t *testing.T) {
	t.Helper()
	testenv.Eventually(t, healLimit, func() error {
		blocked, err := s.metric(s.orchestrator, "rideshare_bus_blocked", "")
		if err == nil && blocked != 1 {
			err = fmt.Errorf("rideshare_bus_blocked: got %v, want 1", blocked)
		}
		return err
	})
	began := time.Now()
	for what, refused := range map[string]func() error{"write": s.refusedWrite, "read": s.refusedRead} {
		first := make(chan struct{}, 1)
		testenv.Eventually(t, healLimit, func() error {
			go func() { // ends with the answer, at the latest at the client's limit
				if refused() == nil {
					select {
					case first <- struct{}{}:
					default: // another request was refused first
					}
				}
			}()
			select {
			case <-first:
				return nil
			default:
				return fmt.Errorf("no %s was refused", what)
			}
		})
		if took := time.Since(began); took > refusalLimit {
			t.Errorf("the first %s was refused %v after the alarm, want %v at most", what, took, refusalLimit)
		}
	}
}

// refusedWrite sends one write, which must be refused with 503.
func (s *system) refusedWrite() error {
	a, err := s.try(context.Background(), http.MethodPost, "/db/execute", []string{"CREATE TABLE refused(n)"})
	if err != nil || a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" {
		return fmt.Errorf("a write: got %d %v %.300s, want 503 with Retry-After: %w", a.status, a.header, a.body, err)
	}
	return nil
}

// goroutines returns the number of goroutines of each process of the system.
func (s *system) goroutines(t *testing.T) map[string]float64 {
	t.Helper()
	at := map[string]string{"up": s.orchestrator}
	for _, pid := range s.cluster(t).all() {
		for name, flag := range map[string]string{fmt.Sprintf("worker %d", pid): "--control-url", "persdb": "--persdb-url"} {
			base, err := settingOf(pid, flag)
			if err != nil {
				t.Fatal(err)
			}
			at[name] = base
		}
	}
	found := map[string]float64{}
	for name, base := range at {
		n, err := s.metric(base, "go_goroutines", "")
		if err != nil {
			t.Fatal(err)
		}
		found[name] = n
	}
	return found
}
