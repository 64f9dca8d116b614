package system_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"rideshare/internal/testkit/apitest"
	"rideshare/internal/testkit/testenv"
)

// A system that has applied all shows no lag, however fast it has just written.
func TestCluster_LagIsOfThisMoment(t *testing.T) {
	db := startSystem(t).URLs().Orchestrator
	apitest.OK(t, "POST", db+"/db/execute", `["CREATE TABLE t(n INTEGER PRIMARY KEY)"]`)
	const writes = 100
	for n := range writes {
		apitest.OK(t, "POST", db+"/db/execute", fmt.Sprintf(`["INSERT INTO t VALUES(%d)"]`, n))
	}
	// Both have answered at the head: the only slave and the master.
	apitest.OK(t, "GET", db+"/db/query?level=weak&q=SELECT+1", "")
	apitest.OK(t, "GET", db+"/db/query?level=strong&q=SELECT+1", "")
	var status struct {
		Members []struct {
			Role    string
			Lag     uint64
			Applied uint64  `json:"applied_seq"`
			Host    *string // absent if the worker has not answered in time
		}
		Head uint64 `json:"head_seq"`
	}
	testenv.Eventually(t, time.Minute, func() error {
		status.Members = nil
		if err := json.Unmarshal([]byte(apitest.OK(t, "GET", db+"/api/v1/cluster", "")), &status); err != nil {
			t.Fatal(err)
		}
		for _, m := range status.Members {
			if m.Host == nil {
				return fmt.Errorf("%+v has not answered in time", m)
			}
		}
		return nil
	})
	if len(status.Members) != 2 || status.Head <= writes {
		t.Fatalf("got %+v, want two workers and a head above %d", status, writes)
	}
	for _, m := range status.Members {
		if m.Lag != 0 || m.Applied < status.Head {
			t.Errorf("got %+v at head %d, want no lag", m, status.Head)
		}
	}
}
