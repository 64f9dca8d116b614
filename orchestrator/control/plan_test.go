package control_test

import (
	"fmt"
	"testing"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/orchestrator/control"

	"github.com/google/go-cmp/cmp"
)

var (
	planNow    = time.Unix(1_800_000_000, 0)
	planLimits = control.Limits{Session: 6 * time.Second, Reregister: time.Second / 2, Bus: 8 * time.Second, Persdb: 5 * time.Second, Ready: time.Minute}
)

// ago is a moment before the pass.
func ago(d time.Duration) time.Time { return planNow.Add(-d) }

func master(pid int) control.Worker {
	return control.Worker{
		ID: dbaas.WorkerID(fmt.Sprintf("w%d", pid)), PID: pid, Running: true,
		Role: dbaas.RoleMaster, Epoch: 1, RoleSince: ago(time.Hour), Registered: true, Proven: true,
	}
}

func slave(pid int) control.Worker {
	w := master(pid)
	w.Role, w.Epoch = dbaas.RoleSlave, 0
	return w
}

func newcomer(pid int) control.Worker {
	return control.Worker{ID: dbaas.WorkerID(fmt.Sprintf("w%d", pid)), PID: pid, Running: true}
}

func dead(w control.Worker) control.Worker {
	w.Running, w.PID, w.Registered = false, 0, false
	return w
}

func lost(w control.Worker, since time.Time) control.Worker {
	w.Registered, w.LostAt = false, since
	return w
}

func busLost(w control.Worker, since time.Time) control.Worker {
	w.BusLostAt = since
	return w
}

func hung(w control.Worker) control.Worker {
	w.Hung = "hung: no answer"
	return w
}

func certain(w control.Worker) control.Worker {
	w.CertainlyHung = true
	return w
}

func bare(w control.Worker) control.Worker {
	w.NoReplica = true
	return w
}

func rebuilding(w control.Worker) control.Worker {
	w.Rebuilding = true
	return w
}

// kinds writes a plan as "kind worker" lines.
func kinds(actions []control.Action) []string {
	var out []string
	for _, a := range actions {
		out = append(out, string(a.Kind)+" "+string(a.Worker))
	}
	return out
}

// Each situation has one right next step.
func TestPlan_Situations(t *testing.T) {
	stopping := slave(9)
	stopping.Stopping = true
	unready := master(1)
	unready.Registered, unready.RoleSince = false, ago(2*time.Minute)
	loading := unready
	loading.ProgressAt = ago(time.Minute - 1)
	stuck := unready
	stuck.ProgressAt = ago(time.Minute)
	loadingSlave := loading
	loadingSlave.ID, loadingSlave.PID, loadingSlave.Role, loadingSlave.Epoch = "w2", 2, dbaas.RoleSlave, 0
	old := master(1)
	newer := master(2)
	newer.Epoch = 2

	leaving := master(1)
	leaving.Leaving = true
	gone := lost(leaving, ago(0))
	yielding := master(1)
	yielding.YieldTo = "w3"
	leavingSlave := slave(2)
	leavingSlave.Leaving = true
	unkillable := lost(master(1), ago(8*time.Second))
	unkillable.KillSince = ago(7 * time.Second)
	refusing := newcomer(3)
	refusing.RoleSince = ago(2 * time.Minute)
	promoted := master(1)
	promoted.Registered, promoted.RoleSince, promoted.LostAt = false, ago(7*time.Second), ago(time.Second)

	tests := map[string]struct {
		workers  []control.Worker
		starting int
		away     bool
		slaves   int
		want     []string
	}{
		"NothingRuns_StartsOneAlone":             {slaves: 3, want: []string{"start "}},
		"FirstIsStarting_Waits":                  {slaves: 3, starting: 1},
		"FirstRuns_BecomesMasterThenSlavesStart": {workers: []control.Worker{newcomer(5)}, slaves: 2, want: []string{"promote w5", "start ", "start "}},
		"AllWell_Nothing":                        {workers: []control.Worker{master(1), slave(2)}, slaves: 1},
		"SlaveStarted_Assigned":                  {workers: []control.Worker{master(1), newcomer(2)}, slaves: 1, want: []string{"assignSlave w2"}},
		"SlaveDead_RemovedAndReplaced":           {workers: []control.Worker{master(1), dead(slave(2))}, slaves: 1, want: []string{"remove w2", "start "}},
		"SlaveStarting_NotStartedTwice":          {workers: []control.Worker{master(1)}, slaves: 1, starting: 1},
		"MasterDead_LowestPIDPromoted": {
			workers: []control.Worker{dead(master(1)), slave(7), slave(3)}, slaves: 2,
			want: []string{"remove w1", "promote w3", "start "},
		},
		"MasterDead_CaughtUpBeatsLowerPID": {
			workers: []control.Worker{dead(master(1)), newcomer(2), slave(3)}, slaves: 2,
			want: []string{"remove w1", "promote w3", "start ", "assignSlave w2"},
		},
		"MasterDead_NoPIDNotPromoted": {workers: []control.Worker{dead(master(1)), slave(0), slave(3)}, slaves: 1, want: []string{"remove w1", "promote w3"}},
		"OnlyOneWithoutPID_StartsOne": {workers: []control.Worker{newcomer(0)}, slaves: 1, want: []string{"start "}},
		"AllStillLoading_LeftAlone":   {workers: []control.Worker{loading, loadingSlave}, slaves: 1},
		"LoadingNoFurther_Killed":     {workers: []control.Worker{stuck, loadingSlave}, slaves: 1, want: []string{"kill w1"}},
		"MasterHung_KilledBeforeAnyElection": {
			workers: []control.Worker{lost(master(1), ago(time.Second)), slave(2), slave(3)}, slaves: 2,
			want: []string{"kill w1"},
		},
		"MasterChangesItsSession_LeftAlone": {workers: []control.Worker{lost(master(1), ago(0)), slave(2), slave(3)}, slaves: 2},
		"MasterNeverReady_Killed":           {workers: []control.Worker{unready, slave(2)}, slaves: 1, want: []string{"kill w1"}},
		"TwoMasters_OlderEpochKilled":       {workers: []control.Worker{old, newer}, slaves: 0, want: []string{"kill w1"}},
		"TooManySlaves_HighestPIDsLeave":    {workers: []control.Worker{master(1), slave(2), slave(8), slave(5)}, slaves: 1, want: []string{"stop w8", "stop w5"}},
		"SlaveWithoutReplica_LeavesFirst":   {workers: []control.Worker{master(1), bare(slave(2)), slave(8)}, slaves: 1, want: []string{"stop w2"}},
		"LeavingSlave_CountsForNothing":     {workers: []control.Worker{master(1), slave(2), stopping}, slaves: 1},
		"CoordinatorAway_NoElection":        {workers: []control.Worker{dead(master(1)), slave(2)}, slaves: 1, away: true, want: []string{"remove w1"}},
		"MasterLeaving_LowestSlaveTakesOverAndOneStarts": {
			workers: []control.Worker{leaving, slave(2), slave(3)}, slaves: 2, want: []string{"demote w1", "promote w2", "start "},
		},
		"MasterLeavingAlone_Waits":           {workers: []control.Worker{leaving, newcomer(2)}, slaves: 1, want: []string{"assignSlave w2"}},
		"MasterLeavingLastSlaveToo_Waits":    {workers: []control.Worker{leaving, leavingSlave}, slaves: 1, want: []string{"start "}},
		"MasterHasLeft_ElectionWithoutAKill": {workers: []control.Worker{gone, slave(2)}, slaves: 1, want: []string{"promote w2", "start "}},
		"MasterYields_NamedSlaveTakesOver":   {workers: []control.Worker{yielding, slave(2), slave(3)}, slaves: 2, want: []string{"demote w1", "promote w3"}},
		"MasterYieldsToNobody_GoesOn":        {workers: []control.Worker{yielding, slave(2)}, slaves: 1},
		"MasterYieldsToUnregistered_GoesOn":  {workers: []control.Worker{yielding, slave(2), lost(slave(3), ago(0))}, slaves: 2},
		"SlaveLeaving_ReplacedAndNotElected": {workers: []control.Worker{dead(master(1)), leavingSlave, slave(3)}, slaves: 1, want: []string{"remove w1", "promote w3", "start "}},
		"MasterCannotBeKilled_FencedInstead": {workers: []control.Worker{unkillable, slave(2)}, slaves: 1, want: []string{"kill w1", "promote w2", "start "}},
		"NewcomerTakesNoRole_Killed":         {workers: []control.Worker{master(1), refusing}, slaves: 1, want: []string{"kill w3", "start "}},
		"PromotedLost_Killed":                {workers: []control.Worker{promoted, slave(2)}, slaves: 1, want: []string{"kill w1"}},
		"AllRegistrationsLost_NobodyKilled":  {workers: []control.Worker{lost(master(1), ago(time.Second)), lost(slave(2), ago(time.Second))}, slaves: 1},
		"AllRegistrationsLostForLong_Killed": {
			workers: []control.Worker{lost(master(1), ago(7*time.Second)), lost(slave(2), ago(7*time.Second))}, slaves: 1,
			want: []string{"kill w1", "kill w2"},
		},
		"OneSlaveLost_GetsASessionOfPatience": {workers: []control.Worker{master(1), slave(2), lost(slave(3), ago(time.Second))}, slaves: 2},
		"OneSlaveLostForLong_KilledAndReplaced": {
			workers: []control.Worker{master(1), slave(2), lost(slave(3), ago(7*time.Second))}, slaves: 2,
			want: []string{"kill w3", "start "},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := control.Plan(control.Observed{
				Now: planNow, Workers: tt.workers, CoordinatorUp: !tt.away, BusSince: ago(time.Hour), Starting: tt.starting,
			}, control.Desired{Slaves: tt.slaves}, planLimits)
			if diff := cmp.Diff(tt.want, kinds(got)); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

func found(pid int) control.Worker {
	w := newcomer(pid)
	w.Found = true
	return w
}

// For one session length after the coordinator was away or the loop got a new session, no worker is killed or
// elected because of a registration that may still come.
func TestPlan_CoordinatorBack(t *testing.T) {
	short, long := ago(6*time.Second-1), ago(6*time.Second)
	for name, tt := range map[string]struct {
		since   time.Time
		workers []control.Worker
		want    []string
	}{
		"MasterNotBackYet_LeftAlone":        {since: short, workers: []control.Worker{lost(master(1), short), slave(2), slave(3)}},
		"MasterNotBackForLong_Killed":       {since: long, workers: []control.Worker{lost(master(1), long), slave(2), slave(3)}, want: []string{"kill w1"}},
		"MasterDead_ElectedAtOnce":          {since: short, workers: []control.Worker{dead(master(1)), slave(2), slave(3)}, want: []string{"remove w1", "promote w2", "start "}},
		"FoundMayBeTheMaster_Waits":         {since: short, workers: []control.Worker{slave(1), found(2), slave(3)}},
		"AllFoundNobodyRegistered_Waits":    {since: short, workers: []control.Worker{found(1), found(2), found(3)}},
		"FoundSaysNothingForLong_Elects":    {since: long, workers: []control.Worker{slave(1), found(2), slave(3)}, want: []string{"promote w1", "assignSlave w2"}},
		"FoundWithMaster_Assigned":          {since: short, workers: []control.Worker{master(1), found(2), slave(3)}, want: []string{"assignSlave w2"}},
		"FoundWithDeadMaster_ElectedAtOnce": {since: short, workers: []control.Worker{dead(master(1)), found(2), slave(3), slave(4)}, want: []string{"remove w1", "promote w3", "assignSlave w2"}},
		"AllFoundAreSlaves_ElectedAtOnce":   {since: short, workers: []control.Worker{slave(1), slave(2), slave(3)}, want: []string{"promote w1"}},
		"StartedByUs_IsNotWaitedFor":        {since: short, workers: []control.Worker{newcomer(1)}, want: []string{"promote w1", "start ", "start "}},
	} {
		t.Run(name, func(t *testing.T) {
			got := control.Plan(control.Observed{
				Now: planNow, Workers: tt.workers, CoordinatorUp: true, CoordinatorSince: tt.since,
			}, control.Desired{Slaves: 2}, planLimits)
			if diff := cmp.Diff(tt.want, kinds(got)); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

// A worker that has long lost the bus while others have it is replaced, the master first and slaves one at a time. In an
// outage of the broker no worker is replaced.
func TestPlan_BusLost(t *testing.T) {
	long, short := ago(8*time.Second), ago(8*time.Second-1)
	yielding := master(1)
	yielding.YieldTo = "w2"
	leaving := slave(2)
	leaving.Leaving = true
	waits := slave(3)
	waits.Registered, waits.RoleSince = false, ago(2*time.Minute)
	for name, tt := range map[string]struct {
		workers  []control.Worker
		starting int
		own      time.Time // since when the orchestrator has had the bus
		slaves   int
		want     []string
	}{
		"Master_KilledBeforeAnyElection":     {workers: []control.Worker{busLost(master(1), long), slave(2)}, own: long, slaves: 1, want: []string{"kill w1"}},
		"MasterNotForLong_LeftAlone":         {workers: []control.Worker{busLost(master(1), short), slave(2)}, own: long, slaves: 1},
		"OursIsAwayToo_NobodyKilled":         {workers: []control.Worker{busLost(master(1), long), slave(2)}, slaves: 1},
		"OursIsBackOnlyNow_NobodyKilled":     {workers: []control.Worker{busLost(master(1), long), slave(2)}, own: short, slaves: 1},
		"AllWorkers_NobodyKilled":            {workers: []control.Worker{busLost(master(1), long), busLost(slave(2), long)}, own: long, slaves: 1},
		"OnlyTheLeavingHasIt_NobodyKilled":   {workers: []control.Worker{busLost(master(1), long), leaving}, own: long, slaves: 0},
		"Slave_KilledAndReplaced":            {workers: []control.Worker{master(1), busLost(slave(2), long)}, own: long, slaves: 1, want: []string{"kill w2", "start "}},
		"Slaves_OneAtATime":                  {workers: []control.Worker{master(1), busLost(slave(2), long), busLost(slave(3), long)}, own: long, slaves: 2, want: []string{"kill w2", "start "}},
		"SlaveWhileOneStarts_Waits":          {workers: []control.Worker{master(1), busLost(slave(2), long)}, own: long, slaves: 2, starting: 1},
		"SlaveWhileOneIsNotReady_Waits":      {workers: []control.Worker{master(1), busLost(slave(2), long), lost(slave(3), ago(0))}, own: long, slaves: 2},
		"MasterAndSlave_MasterFirst":         {workers: []control.Worker{busLost(slave(1), short), busLost(master(2), long), busLost(slave(3), long), slave(4)}, own: long, slaves: 3, want: []string{"kill w2"}},
		"Election_WhoHasTheBusBeatsPID":      {workers: []control.Worker{dead(master(1)), busLost(slave(2), short), slave(3)}, own: long, slaves: 2, want: []string{"remove w1", "promote w3", "start "}},
		"Election_NobodyHasTheBus_LowestPID": {workers: []control.Worker{dead(master(1)), busLost(slave(2), short), busLost(slave(3), short)}, own: long, slaves: 2, want: []string{"remove w1", "promote w2", "start "}},
		"Election_WhoHasAReplicaBeatsPID":    {workers: []control.Worker{dead(master(1)), bare(slave(2)), slave(3)}, own: long, slaves: 2, want: []string{"remove w1", "promote w3", "start "}},
		"Election_WhoFollowsBeatsPID":        {workers: []control.Worker{dead(master(1)), rebuilding(slave(2)), slave(3)}, own: long, slaves: 2, want: []string{"remove w1", "promote w3", "start "}},
		"Election_NobodyFollows_LowestPID":   {workers: []control.Worker{dead(master(1)), rebuilding(slave(2)), rebuilding(slave(3))}, own: long, slaves: 2, want: []string{"remove w1", "promote w2", "start "}},
		"Hung_SlaveBesideOneThatRebuilds":    {workers: []control.Worker{master(1), hung(slave(2)), rebuilding(slave(3)), newcomer(4)}, slaves: 3, want: []string{"kill w2", "start ", "assignSlave w4"}},
		"HandOver_NotToWhoIsRebuilding":      {workers: []control.Worker{yielding, rebuilding(slave(2))}, own: long, slaves: 1},
		"Election_TheBusCountsMore":          {workers: []control.Worker{dead(master(1)), busLost(slave(2), short), bare(slave(3))}, own: long, slaves: 2, want: []string{"remove w1", "promote w3", "start "}},
		"HandOver_NotToWhoHasNoReplica":      {workers: []control.Worker{yielding, bare(slave(2))}, own: long, slaves: 1},
		"NewSlave_OursIsAwayToo_LeftAlone":   {workers: []control.Worker{master(1), waits}, slaves: 1},
		"NewSlave_OursIsBackOnlyNow_Waits":   {workers: []control.Worker{master(1), waits}, own: ago(10 * time.Second), slaves: 1},
		"NewSlave_OursIsBackForLong_Killed":  {workers: []control.Worker{master(1), waits}, own: ago(2 * time.Minute), slaves: 1, want: []string{"kill w3", "start "}},
		"HandOver_NotToWhoHasLostTheBus":     {workers: []control.Worker{yielding, busLost(slave(2), short)}, own: long, slaves: 1},
	} {
		t.Run(name, func(t *testing.T) {
			got := control.Plan(control.Observed{
				Now: planNow, Workers: tt.workers, CoordinatorUp: true, BusSince: tt.own, Starting: tt.starting,
			}, control.Desired{Slaves: tt.slaves}, planLimits)
			if diff := cmp.Diff(tt.want, kinds(got)); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

// A worker that hangs is killed if a slave can do its work: before an election, and without one if it has no successor.
func TestPlan_Hung(t *testing.T) {
	yielding, leaving := master(1), hung(master(1))
	yielding.YieldTo, leaving.Leaving = "w2", true
	for name, tt := range map[string]struct {
		workers  []control.Worker
		starting int
		away     bool
		slaves   int
		want     []string
	}{
		"Master_KilledBeforeAnyElection":     {workers: []control.Worker{hung(master(1)), slave(2)}, slaves: 1, want: []string{"kill w1"}},
		"MasterWithoutASuccessor_LeftAlone":  {workers: []control.Worker{hung(master(1)), bare(slave(2))}, slaves: 1},
		"MasterForCertain_Killed":            {workers: []control.Worker{certain(hung(master(1))), bare(slave(2))}, slaves: 1, want: []string{"kill w1"}},
		"MasterAloneForCertain_Killed":       {workers: []control.Worker{certain(hung(master(1)))}, want: []string{"kill w1"}},
		"SlaveForCertainAlone_LeftAlone":     {workers: []control.Worker{lost(master(1), ago(0)), certain(hung(slave(2)))}, slaves: 1},
		"MasterWithASuccessorLost_LeftAlone": {workers: []control.Worker{hung(master(1)), lost(slave(2), ago(0))}, slaves: 1},
		"MasterLeaving_HandsOver":            {workers: []control.Worker{leaving, slave(2)}, slaves: 1, want: []string{"demote w1", "promote w2", "start "}},
		"CoordinatorAway_LeftAlone":          {workers: []control.Worker{hung(master(1)), slave(2)}, slaves: 1, away: true},
		"Slave_KilledAndReplaced":            {workers: []control.Worker{master(1), hung(slave(2)), slave(3)}, slaves: 2, want: []string{"kill w2", "start "}},
		"SlaveWhileOneStarts_KilledToo":      {workers: []control.Worker{master(1), hung(slave(2)), slave(3)}, slaves: 3, starting: 1, want: []string{"kill w2", "start "}},
		"LastSlave_KilledAndReplaced":        {workers: []control.Worker{master(1), hung(slave(2))}, slaves: 1, want: []string{"kill w2", "start "}},
		"LastSlaveWhileOneStarts_LeftAlone":  {workers: []control.Worker{master(1), hung(slave(2))}, slaves: 2, starting: 1},
		"LastSlaveWhileOneJoins_LeftAlone":   {workers: []control.Worker{master(1), hung(slave(2)), newcomer(3)}, slaves: 2, want: []string{"assignSlave w3"}},
		"MasterAndSlave_TheOtherFollows":     {workers: []control.Worker{hung(master(1)), hung(slave(2)), slave(3)}, slaves: 2, want: []string{"kill w1", "kill w2"}},
		"Election_WhoAnswersBeatsPID":        {workers: []control.Worker{dead(master(1)), hung(slave(2)), bare(slave(3))}, slaves: 2, want: []string{"remove w1", "kill w2", "promote w3", "start ", "start "}},
		"HandOver_NotToWhoHangs":             {workers: []control.Worker{yielding, hung(slave(2)), slave(3)}, slaves: 2, want: []string{"kill w2", "start "}},
	} {
		t.Run(name, func(t *testing.T) {
			got := control.Plan(control.Observed{
				Now: planNow, Workers: tt.workers, CoordinatorUp: !tt.away, BusSince: ago(time.Hour), Starting: tt.starting,
			}, control.Desired{Slaves: tt.slaves}, planLimits)
			if diff := cmp.Diff(tt.want, kinds(got)); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}
