package control_test

import (
	"slices"
	"testing"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/orchestrator/control"

	"github.com/google/go-cmp/cmp"
)

// on puts a worker on a host. The id of a worker is its host and its pid there.
func on(host string, w control.Worker) control.Worker {
	w.Host, w.ID = host, dbaas.WorkerID(host)+w.ID[1:]
	return w
}

// silent is a worker whose host's launcher has not answered since.
func silent(since time.Time, w control.Worker) control.Worker {
	w.SilentSince = since
	return w
}

// hostLost is a worker of a lost host.
func hostLost(w control.Worker) control.Worker {
	w.HostLost, w.SilentSince = true, ago(2*time.Second)
	return w
}

func hostsABC(silent ...string) []control.Host {
	var all []control.Host
	for _, name := range []string{"a", "b", "c"} {
		all = append(all, control.Host{Name: name, Answers: !slices.Contains(silent, name)})
	}
	return all
}

// placed writes a plan as "kind worker" lines, a start with its host.
func placed(actions []control.Action) []string {
	lines := kinds(actions)
	for i, a := range actions {
		if a.Kind == control.ActionStart {
			lines[i] += a.Host
		}
	}
	return lines
}

// A new worker goes to the host that answers and has the fewest workers, then to the master's, then by name. Surplus slaves that do not serve leave
// first, then those of the host with the most workers, but not the last slave that serves, nor the last slave on another host than the
// master's.
func TestPlan_Placement(t *testing.T) {
	ma, sa, sb := on("a", master(1)), on("a", slave(2)), on("b", slave(3))
	busyB := hostsABC()
	busyB[1].Starting = 1
	failingB := hostsABC()
	failingB[1].Failing = true
	back := lost(on("c", slave(9)), ago(time.Minute))
	back.AnswersSince = ago(time.Second)
	unready := on("c", newcomer(9))
	unready.RoleSince = ago(2 * time.Minute)
	served := unready
	served.Proven = true
	failing := hostsABC("b", "c")
	failing[0].Failing = true
	stopping := on("b", slave(9))
	stopping.Stopping = true
	for name, tt := range map[string]struct {
		hosts    []control.Host
		workers  []control.Worker
		starting int
		slaves   int
		want     []string
	}{
		"NothingRuns_FirstByName":          {hosts: hostsABC(), slaves: 2, want: []string{"start a"}},
		"FirstIsSilent_NextByName":         {hosts: hostsABC("a"), slaves: 2, want: []string{"start b"}},
		"NoHostAnswers_NoStart":            {hosts: hostsABC("a", "b", "c"), slaves: 2},
		"MasterRuns_SlavesOnTheOthers":     {hosts: hostsABC(), workers: []control.Worker{ma}, slaves: 4, want: []string{"start b", "start c", "start a", "start b"}},
		"EvenLoad_WithTheMaster":           {hosts: hostsABC("a"), workers: []control.Worker{on("c", master(1)), sb}, slaves: 2, want: []string{"start c"}},
		"StartingCounts":                   {hosts: busyB, workers: []control.Worker{ma}, starting: 1, slaves: 2, want: []string{"start c"}},
		"StartsFail_HostComesLast":         {hosts: failingB, workers: []control.Worker{ma, on("c", slave(2))}, slaves: 2, want: []string{"start a"}},
		"NeverServed_ReplacedElsewhere":    {hosts: hostsABC(), workers: []control.Worker{ma, sb, unready}, slaves: 2, want: []string{"kill c9", "start a"}},
		"HasServed_ReplacedThere":          {hosts: hostsABC(), workers: []control.Worker{ma, sb, served}, slaves: 2, want: []string{"kill c9", "start c"}},
		"OnlyAFailingHostAnswers_Used":     {hosts: failing, workers: []control.Worker{ma}, slaves: 1, want: []string{"start a"}},
		"StoppingDoesNotCount":             {hosts: hostsABC("c"), workers: []control.Worker{ma, stopping}, slaves: 1, want: []string{"start b"}},
		"OthersSilent_WithTheMaster":       {hosts: hostsABC("b", "c"), workers: []control.Worker{ma}, slaves: 1, want: []string{"start a"}},
		"HostBack_NothingMoves":            {hosts: hostsABC(), workers: []control.Worker{ma, sa, on("a", slave(4))}, slaves: 2},
		"Surplus_FullestHost":              {hosts: hostsABC(), workers: []control.Worker{ma, sa, on("b", slave(8))}, slaves: 1, want: []string{"stop a2"}},
		"SurplusEven_HighestPID":           {hosts: hostsABC(), workers: []control.Worker{ma, on("b", slave(4)), on("c", slave(3))}, slaves: 1, want: []string{"stop b4"}},
		"SurplusNotServing_First":          {hosts: hostsABC(), workers: []control.Worker{ma, sa, sb, on("c", newcomer(1))}, slaves: 2, want: []string{"stop c1"}},
		"SurplusWithoutReplica_First":      {hosts: hostsABC(), workers: []control.Worker{on("c", master(1)), on("a", bare(slave(2))), sb}, slaves: 1, want: []string{"stop a2"}},
		"SurplusRebuilding_Serves":         {hosts: hostsABC(), workers: []control.Worker{on("c", master(1)), on("a", rebuilding(slave(2))), on("b", bare(slave(3)))}, slaves: 1, want: []string{"stop b3"}},
		"SurplusWithoutTheBus_First":       {hosts: hostsABC(), workers: []control.Worker{ma, sb, busLost(on("c", slave(2)), ago(0)), on("b", slave(4))}, slaves: 2, want: []string{"stop c2"}},
		"SurplusComesBack_Waits":           {hosts: hostsABC(), workers: []control.Worker{ma, sa, sb, back}, slaves: 2},
		"SurplusLastServing_Waits":         {hosts: hostsABC(), workers: []control.Worker{ma, sa, lost(sb, ago(0))}, slaves: 1},
		"SurplusOnSilentHost_AnotherGoes":  {hosts: hostsABC("b"), workers: []control.Worker{ma, silent(ago(time.Minute), on("b", slave(9))), on("c", slave(2)), on("c", slave(3))}, slaves: 2, want: []string{"stop c3"}},
		"SurplusOnlyOnSilentHost_Waits":    {hosts: hostsABC("b"), workers: []control.Worker{ma, silent(ago(time.Minute), on("b", slave(9)))}, slaves: 0},
		"NoSlavesWanted_LastOneGoes":       {hosts: hostsABC(), workers: []control.Worker{ma, sb}, slaves: 0, want: []string{"stop b3"}},
		"SeveralSurplus_EvenlyFromTheHost": {hosts: hostsABC(), workers: []control.Worker{ma, sa, on("b", slave(4)), on("b", slave(5)), on("b", slave(6))}, slaves: 1, want: []string{"stop b6", "stop b5", "stop a2"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := control.Plan(control.Observed{Now: planNow, CoordinatorUp: true, BusSince: ago(time.Hour), Workers: tt.workers, Hosts: tt.hosts, Starting: tt.starting}, control.Desired{Slaves: tt.slaves}, planLimits)
			if diff := cmp.Diff(tt.want, placed(got)); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

// The workers of a silent host are what their registrations say. None is killed, stopped, removed, assigned or promoted,
// and none delays what concerns another host. Only the master of a lost host is replaced before its session ends.
func TestPlan_SilentHosts(t *testing.T) {
	long := ago(time.Minute)
	ma, sb, sc := on("a", master(1)), on("b", slave(2)), on("c", slave(3))
	killing := hostLost(ma)
	killing.Stopping, killing.KillSince = true, ago(time.Second)
	old := on("a", master(1))
	newer := on("b", master(2))
	newer.Epoch = 2
	back := lost(ma, ago(20*time.Second))
	back.AnswersSince = ago(0)
	slaveBack := lost(sc, ago(20*time.Second))
	slaveBack.AnswersSince = ago(time.Second)
	for name, tt := range map[string]struct {
		silent  []string
		workers []control.Worker
		want    []string
	}{
		"RegisteredMaster_Stays":               {[]string{"a"}, []control.Worker{silent(long, ma), sb, sc}, nil},
		"RegisteredSlave_Counts":               {[]string{"c"}, []control.Worker{ma, sb, silent(long, sc)}, nil},
		"SlaveJustUnregistered_Counts":         {[]string{"c"}, []control.Worker{ma, sb, silent(long, lost(sc, ago(0)))}, nil},
		"SlaveUnregistered_Replaced":           {[]string{"c"}, []control.Worker{ma, sb, silent(long, lost(sc, ago(time.Second)))}, []string{"start a"}},
		"MasterUnregistered_ReplacedUnkilled":  {[]string{"a"}, []control.Worker{silent(long, lost(ma, ago(time.Second))), sb, sc}, []string{"promote b2", "start b"}},
		"NewcomerForShort_Counts":              {[]string{"c"}, []control.Worker{ma, sb, silent(ago(5*time.Second), on("c", newcomer(3)))}, nil},
		"NewcomerForASession_Replaced":         {[]string{"c"}, []control.Worker{ma, sb, silent(ago(6*time.Second), on("c", newcomer(3)))}, []string{"start a"}},
		"Dead_ReplacedNotRemoved":              {[]string{"c"}, []control.Worker{ma, sb, silent(long, dead(sc))}, []string{"start a"}},
		"HungSlave_LeftAlone":                  {[]string{"c"}, []control.Worker{ma, sb, silent(long, hung(sc))}, nil},
		"BusLostSlave_LeftAlone":               {[]string{"c"}, []control.Worker{ma, sb, silent(long, busLost(sc, long))}, nil},
		"MasterDead_NoSuccessorOnSilentHost":   {[]string{"b"}, []control.Worker{dead(ma), silent(long, sb), sc}, []string{"remove a1", "promote c3", "start a"}},
		"MasterDead_OnlySilentSlaves_Starts":   {[]string{"b", "c"}, []control.Worker{dead(ma), silent(long, sb), silent(long, sc)}, []string{"remove a1", "start a"}},
		"LostHostsMaster_ReplacedImmediately":  {[]string{"a"}, []control.Worker{hostLost(ma), sb, sc}, []string{"promote b2", "start b"}},
		"LostHostsMasterBeingKilled_Replaced":  {[]string{"a"}, []control.Worker{killing, sb, sc}, []string{"promote b2", "start b"}},
		"LostHostsSlave_CountsWhileRegistered": {[]string{"c"}, []control.Worker{ma, sb, hostLost(sc)}, nil},
		"OldMasterSilent_NotKilled":            {[]string{"a"}, []control.Worker{silent(long, old), newer, sc, on("c", slave(4))}, nil},
		"OldMasterBack_Killed":                 {nil, []control.Worker{old, newer, sc, on("c", slave(4))}, []string{"kill a1"}},
		"MasterBackBeforeElection_MayRegister": {nil, []control.Worker{back, sb, sc}, nil},
		"SlaveBack_MayRegister":                {nil, []control.Worker{ma, sb, slaveBack}, nil},
		"MostLostOnSilentHost_OthersDecided":   {[]string{"c"}, []control.Worker{lost(ma, ago(time.Second)), sb, silent(long, lost(sc, ago(0))), silent(long, lost(on("c", slave(4)), ago(0)))}, []string{"kill a1"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := control.Plan(control.Observed{Now: planNow, CoordinatorUp: true, BusSince: long, Workers: tt.workers, Hosts: hostsABC(tt.silent...)}, control.Desired{Slaves: 2}, planLimits)
			if diff := cmp.Diff(tt.want, placed(got)); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

// The next master is the slave with the lowest pid, then by host, then by id.
func TestPlan_ElectionOrder(t *testing.T) {
	later := on("b", slave(5))
	later.ID = "b50"
	for name, tt := range map[string]struct {
		workers []control.Worker
		want    string
	}{
		"LowestPID":     {[]control.Worker{on("a", slave(7)), on("c", slave(5)), on("b", slave(6))}, "promote c5"},
		"EqualPID_Host": {[]control.Worker{on("c", slave(5)), on("b", slave(5)), on("a", slave(6))}, "promote b5"},
		"EqualHost_ID":  {[]control.Worker{later, on("b", slave(5))}, "promote b5"},
	} {
		t.Run(name, func(t *testing.T) {
			got := placed(control.Plan(control.Observed{Now: planNow, CoordinatorUp: true, Workers: tt.workers, Hosts: hostsABC()}, control.Desired{}, planLimits))
			if len(got) == 0 || got[0] != tt.want {
				t.Errorf("got %v, want %s first", got, tt.want)
			}
		})
	}
}
