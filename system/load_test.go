package system

import (
	"slices"
	"testing"

	"rideshare/internal/dbaas"
	"rideshare/internal/workerapi"
	"rideshare/orchestrator/scale"
)

// The busy fraction is that of the window. It is unknown for a slave that may have worked before the first measurement. A slave that
// does not answer once is measured since its last answer. A new slave is measured since its start.
func TestLoadMeter_BusyIsOfTheWindow(t *testing.T) {
	slave := func(id dbaas.WorkerID, busySeconds, seconds int64) workerapi.Status {
		return workerapi.Status{ID: id, Role: dbaas.RoleSlave, Ready: true, Counters: map[string]int64{counterBusy: busySeconds * 1e6, counterPlaces: seconds * 1e6}}
	}
	joining := workerapi.Status{ID: "w3", Role: dbaas.RoleSlave}
	m := &loadMeter{}
	for i, tt := range []struct {
		statuses []workerapi.Status
		silent   bool // a worker did not answer
		busy     float64
		missing  bool
	}{
		{statuses: []workerapi.Status{slave("w1", 900, 1000)}, silent: true, missing: true},
		{statuses: []workerapi.Status{slave("w1", 925, 1100), slave("w2", 900, 1000)}, missing: true},
		{statuses: []workerapi.Status{slave("w1", 950, 1200), slave("w2", 950, 1100)}, busy: 0.375},
		{statuses: []workerapi.Status{slave("w1", 950, 1300), joining}, silent: true},
		{statuses: []workerapi.Status{slave("w1", 950, 1400), slave("w2", 1000, 1300), slave("w3", 75, 100)}, busy: (0.25 + 0.75) / 3},
		{statuses: []workerapi.Status{slave("w1", 950, 1500), slave("w4", 50, 100)}, busy: 0.25},
	} {
		var s scale.Sample
		m.slaves(&s, dbaas.Head{}, tt.statuses, !tt.silent)
		if missing := slices.Contains(s.Missing, "busy"); s.Busy != tt.busy || missing != tt.missing {
			t.Errorf("window %d: got busy %v, missing %t, want %v, %t", i, s.Busy, missing, tt.busy, tt.missing)
		}
	}
}
