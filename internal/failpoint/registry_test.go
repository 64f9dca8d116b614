//go:build failpoint

package failpoint

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Points perform their action while they are armed, and nothing before and after.
func TestRegistry_Hit_DoesWhatItIsArmedFor(t *testing.T) {
	t.Parallel()
	died := 0
	r := newRegistry()
	r.die = func() { died++ }
	hit := func() error { return r.hit(string(MasterBeforeCommit)) }
	if err := hit(); err != nil || died != 0 {
		t.Errorf("not armed: got %v, %d deaths, want nothing", err, died)
	}
	for action, want := range map[Action]error{Kill: nil, Error: errArmed} {
		if err := r.arm(string(MasterBeforeCommit), action); err != nil {
			t.Fatal(err)
		}
		if err := hit(); !errors.Is(err, want) {
			t.Errorf("%s: got %v, want %v", action, err, want)
		}
	}
	if died != 1 {
		t.Errorf("got %d deaths, want 1", died)
	}
	r.disarm(string(MasterBeforeCommit))
	if err := hit(); err != nil || died != 1 {
		t.Errorf("disarmed: got %v, %d deaths, want no more", err, died)
	}
}

// A goroutine that reaches a paused point waits there until the point is disarmed or armed again.
func TestRegistry_Pause_HoldsUntilReleased(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRegistry()
		for _, release := range []func(){
			func() { r.disarm(string(MasterTaken)) },
			func() { _ = r.arm(string(MasterTaken), Pause) },
		} {
			if err := r.arm(string(MasterTaken), Pause); err != nil {
				t.Fatal(err)
			}
			through := 0
			go func() {
				_ = r.hit(string(MasterTaken))
				through++
			}()
			synctest.Wait()
			if s := r.state(string(MasterTaken)); s.Waiting != 1 || through != 0 {
				t.Errorf("armed: got %+v, %d through, want 1 waiting", s, through)
			}
			release()
			synctest.Wait()
			if through != 1 {
				t.Errorf("released: got %d through, want 1", through)
			}
		}
	})
}

// A goroutine that reaches a spinning point loops there until the point is disarmed.
func TestRegistry_Spin_HoldsUntilReleased(t *testing.T) {
	t.Parallel()
	r := newRegistry()
	if err := r.arm(string(MasterTaken), Spin); err != nil {
		t.Fatal(err)
	}
	through := make(chan error, 1)
	go func() { through <- r.hit(string(MasterTaken)) }()
	for r.state(string(MasterTaken)).Waiting == 0 {
		runtime.Gosched()
	}
	select {
	case err := <-through:
		t.Errorf("the goroutine is through while the point is armed (%v)", err)
	default:
	}
	r.disarm(string(MasterTaken))
	if err := <-through; err != nil {
		t.Error(err)
	}
}

// A goroutine that reaches a slow point continues after its time, or immediately when the point is disarmed.
func TestRegistry_Slow_HoldsForItsTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRegistry()
		if err := r.arm(string(PersdbBeforeCommit), Slow); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if err := r.hit(string(PersdbBeforeCommit)); err != nil || time.Since(began) != slowFor {
			t.Errorf("armed: got %v after %v, want nil after %v", err, time.Since(began), slowFor)
		}
		time.AfterFunc(slowFor/2, func() { r.disarm(string(PersdbBeforeCommit)) })
		began = time.Now()
		if err := r.hit(string(PersdbBeforeCommit)); err != nil || time.Since(began) != slowFor/2 {
			t.Errorf("disarmed while it waited: got %v after %v, want nil after %v", err, time.Since(began), slowFor/2)
		}
	})
}

// A name or an action that there is not is refused, in the environment and over HTTP.
func TestRegistry_Arm_RefusesWhatThereIsNot(t *testing.T) {
	t.Parallel()
	r := newRegistry()
	for _, list := range []string{"no-such-point=kill", "master-taken=error", "master-taken", "no-epoch-check=kill"} {
		if err := r.armAll(list); err == nil {
			t.Errorf("%s: got nil, want an error", list)
		}
		name, action, _ := strings.Cut(list, "=")
		w := httptest.NewRecorder()
		r.ServeHTTP(w, httptest.NewRequest(http.MethodPut, "/"+name, strings.NewReader(action)))
		if w.Code != http.StatusBadRequest {
			t.Errorf("PUT %s: got %d, want 400", list, w.Code)
		}
	}
	if err := r.armAll("master-taken=pause, no-epoch-check=on,"); err != nil {
		t.Errorf("got %v, want nil", err)
	}
	if got := r.state(string(NoEpochCheck)).Action; got != TurnOn {
		t.Errorf("got %q, want on", got)
	}
}
