package e2e

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// While workers are killed at random, no acknowledged write is lost, none has two
// effects, and every read that is answered sees all that was acknowledged before.
func TestFaults_WorkersCrashedUnderLoad_NoAckedWriteLostNoneTwice(t *testing.T) {
	sys := start(t, setup{flags: []string{"--slaves", "2"}, env: []string{"CALL_TIMEOUT=3s"}})
	e := newEffects(t, sys)
	stop, stopReading := e.load(16), e.read(4)
	e.crashSome(t, 16, 400)
	e.awaitAcked(t, e.acked.Load()+100)
	stop()
	if err := stopReading(); err != nil {
		t.Error(err)
	}
	sys.AwaitService(t)
	e.verify(t)
	sys.Stop(t)
	sys.checkStore(t)
}

// 64 writers send every operation three times at once with the same key while
// workers are killed at random, and again until the answer is final: one effect
// each, and the same answer each time.
func TestFaults_SameKeyThriceWhileWorkersCrash_OneEffectSameAnswer(t *testing.T) {
	sys := start(t, setup{flags: []string{"--slaves", "2"}, env: []string{"CALL_TIMEOUT=3s"}})
	const writers, copies = 64, 3
	e := newEffects(t, sys)
	var done atomic.Bool
	finished := make(chan error, 1)
	go func() {
		finished <- together(writers, func(w int) error {
			for i := 0; !done.Load(); i++ {
				if err := e.thrice(fmt.Sprintf("w%d-%d", w, i), copies); err != nil {
					return err
				}
			}
			return nil
		})
	}()
	e.crashSome(t, 12, 300)
	e.awaitAcked(t, e.acked.Load()+100)
	done.Store(true)
	if err := <-finished; err != nil {
		t.Error(err)
	}
	sys.AwaitService(t)
	e.verify(t)
}

// thrice sends one write several times at once with one key, each until its
// answer is final, and returns an error unless all answers are the same.
func (e *effects) thrice(name string, copies int) error {
	answers := make([]answer, copies)
	err := together(copies, func(i int) error {
		a, err := e.untilFinal(name)
		answers[i] = a
		return err
	})
	if err != nil {
		return err
	}
	for _, a := range answers {
		if a.Status != http.StatusOK || a.Body != answers[0].Body || a.Header.Get("X-Seq") != answers[0].Header.Get("X-Seq") {
			return fmt.Errorf("%s: got %d %s at %q and %d %s at %q, want the same", name,
				answers[0].Status, answers[0].Body, answers[0].Header.Get("X-Seq"), a.Status, a.Body, a.Header.Get("X-Seq"))
		}
	}
	return nil
}

// untilFinal sends one write with its name as key until the answer is final.
func (e *effects) untilFinal(name string) (answer, error) {
	return untilFinal(func(ctx context.Context) (answer, error) {
		return e.write(ctx, name, keyHeader, name)
	})
}

// untilFinal calls send until its answer says neither "refused for now" nor "outcome unknown" nor "still running", as a
// client with an Idempotency-Key does.
func untilFinal(send func(context.Context) (answer, error)) (answer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*againLimit)
	defer cancel()
	for {
		a, err := send(ctx)
		if err != nil {
			return a, err
		}
		switch a.Status {
		case http.StatusServiceUnavailable, http.StatusGatewayTimeout, http.StatusConflict:
			select {
			case <-ctx.Done():
				return a, fmt.Errorf("no final answer, the last is %d %.200s: %w", a.Status, a.Body, ctx.Err())
			case <-time.After(20 * time.Millisecond):
			}
		default:
			return a, nil
		}
	}
}

// SIGKILL of the whole system under load loses no acknowledged write, and ride ids continue where they were.
func TestFaults_SystemKilledUnderLoad_NoAckedWriteLost(t *testing.T) {
	sys := start(t, setup{owned: true})
	sys.PutUser(t, "ann")
	e := newEffects(t, sys)
	random := newRandom(t)
	for range 5 {
		ride := sys.NewRide(t, "ann", 0)
		stop := e.load(16)
		e.awaitAcked(t, e.acked.Load()+1+random.Int64N(1000))
		sys.Kill(t)
		stop()
		sys.Start(t)
		sys.AwaitService(t)
		e.verify(t)
		sys.Get(t, sys.rideURL(ride)).expect(t, http.StatusOK, anyBody)
		if next := sys.NewRide(t, "ann", 0); next <= ride {
			t.Errorf("ride id after the kill: got %d, want above %d", next, ride)
		}
	}
	sys.Stop(t)
	sys.checkStore(t)
}

// After SIGTERM under load, pending requests are completed, the process exits with 0 within 10 s, and nothing
// acknowledged is lost.
func TestFaults_SystemStoppedUnderLoad_EndsCleanly(t *testing.T) {
	sys := start(t, setup{owned: true})
	e := newEffects(t, sys)
	stop := e.load(32)
	e.awaitAcked(t, 300)
	sys.Stop(t)
	stop()
	sys.checkStore(t)
	sys.Start(t)
	e.verify(t)
}

// A second signal ends the process immediately, whatever runs, and the data is intact afterwards.
func TestFaults_SecondSignal_EndsAtOnce(t *testing.T) {
	sys := start(t, setup{owned: true})
	e := newEffects(t, sys)
	stop := e.load(8)
	e.awaitAcked(t, 50)
	sys.holdRequest(t)
	proc := sys.proc
	eventually(t, stopLimit, func() error { // a signal that comes before the last one was noticed has no effect
		select {
		case <-proc.done:
			return nil
		default:
			return cmp.Or(proc.signal(syscall.SIGINT), errors.New("still runs"))
		}
	})
	if sys.Kill(t); proc.cmd.ProcessState.ExitCode() != -1 { // it ended by itself
		t.Errorf("got %v, want the end by a signal", proc.cmd.ProcessState)
	}
	stop()
	sys.Start(t)
	sys.AwaitService(t)
	e.verify(t)
}

// holdRequest sends a request without its body, and returns when the system waits for that. A graceful stop waits for it, too.
func (s *system) holdRequest(t *testing.T) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.Orchestrator, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err = io.WriteString(conn, "POST /db/execute HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 100\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || !strings.Contains(line, "100 Continue") {
		t.Fatalf("got %q, %v, want to be asked for the body", line, err)
	}
}

// Users, rides, seats and the number of workers survive a graceful restart.
func TestFaults_Restart_KeepsEverything(t *testing.T) {
	sys := start(t, setup{owned: true})
	sys.PutUser(t, "ann")
	sys.PutUser(t, "bob")
	ride := sys.NewRide(t, "ann", 3)
	sys.Join(t, ride, "bob").expect(t, http.StatusOK, "{}")
	before := sys.Get(t, sys.rideURL(ride))
	key := []string{keyHeader, "over a restart"}
	put := sys.Call(t, "PUT", sys.usersURL(), userBody("eve"), key...).expect(t, http.StatusCreated, "{}")

	sys.Restart(t)

	sys.Get(t, sys.rideURL(ride)).expect(t, http.StatusOK, before.Body)
	again := sys.Call(t, "PUT", sys.usersURL(), userBody("eve"), key...).expect(t, http.StatusCreated, "{}")
	if again.seq(t) != put.seq(t) {
		t.Errorf("the same key after a restart: at %d, want %d", again.seq(t), put.seq(t))
	}
	names := decode[[]string](t, sys.Get(t, sys.usersURL()))
	slices.Sort(names)
	if !slices.Equal(names, []string{"ann", "bob", "eve"}) {
		t.Errorf("users: got %v, want ann, bob and eve", names)
	}
	if next := sys.NewRide(t, "bob", 0); next != ride+1 {
		t.Errorf("next ride: got %d, want %d", next, ride+1)
	}
}
