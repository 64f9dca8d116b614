package fault_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"syscall"
	"testing"

	"rideshare/internal/testkit/testenv"
)

// A live master hands its role over under load, on request and after SIGTERM: no write or read fails, and none has an
// unknown outcome.
func TestSystem_HandOver_NoRequestFails(t *testing.T) {
	t.Parallel()
	l := startLoad(t, startSystem(t, shared(t), 2, patient))
	for name, move := range map[string]func(t *testing.T, s *system){
		"OnRequest": handOver,
		"ByTerm":    terminateMaster,
	} {
		t.Run(name, func(t *testing.T) {
			for range 4 {
				l.sys.awaitWhole(t, 2)
				move(t, l.sys)
				l.awaitProgress(t)
			}
			if writes, reads := l.writesRefused.Load(), l.readsFailed.Load(); writes+reads > 0 {
				t.Errorf("%d writes and %d reads failed, want none", writes, reads)
			}
		})
	}
	l.await(t, 2)
}

// handOver hands the role over by POST master: to the slave with the lowest pid, without a restart.
func handOver(t *testing.T, s *system) {
	t.Helper()
	var before cluster
	var got struct{ Old, New struct{ PID, Epoch int } }
	testenv.Eventually(t, healLimit, func() error {
		before = s.awaitWhole(t, 2)
		a, err := s.try(t.Context(), http.MethodPost, "/api/v1/master", struct{}{})
		if err != nil || a.status != http.StatusOK {
			return fmt.Errorf("POST master: got %d %.300s, want 200: %w", a.status, a.body, err)
		}
		return json.Unmarshal(a.body, &got)
	})
	if got.Old.PID != before.pids("master")[0] || got.New.PID != before.pids("slave")[0] || got.New.Epoch <= got.Old.Epoch {
		t.Errorf("got %+v, want the master and the lowest slave of %+v", got, before)
	}
	if after := s.awaitWhole(t, 2); !slices.Equal(after.all(), before.all()) || after.pids("master")[0] != got.New.PID {
		t.Errorf("got %+v, want the workers of %+v with master %d", after, before, got.New.PID)
	}
}

// terminateMaster sends SIGTERM to the master, which ends when another worker has taken over.
func terminateMaster(t *testing.T, s *system) {
	t.Helper()
	before := s.cluster(t)
	signal(t, before.pids("master")[0], syscall.SIGTERM)
	s.awaitGone(t, before.pids("master"))
	if after := s.awaitSuccessor(t, before); after.pids("master")[0] != before.pids("slave")[0] {
		t.Errorf("the new master: got %+v, want the lowest slave of %+v", after, before)
	}
}
