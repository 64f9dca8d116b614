package fault_test

import (
	"testing"
)

// Whatever state the services are in, SIGTERM ends the system within its limit, and every acknowledged write is in its
// file.
func TestUp_TermWhileServicesStandStill_EndsInTime(t *testing.T) {
	t.Parallel()
	on := startServices(t)
	for name, fault := range map[string]struct{ begin, heal func(testing.TB) }{
		"BrokerFrozen":      {on.rabbit.Pause, on.rabbit.Resume},
		"BrokerDead":        {on.rabbit.Kill, on.rabbit.Start},
		"BrokerMemoryAlarm": {memoryAlarm.raise(on.rabbit), memoryAlarm.clear(on.rabbit)},
		"BrokerDiskAlarm":   {diskAlarm.raise(on.rabbit), diskAlarm.clear(on.rabbit)},
		"CoordinatorFrozen": {on.zoo.Pause, on.zoo.Resume},
		"CoordinatorDead":   {on.zoo.Kill, on.zoo.Start},
	} {
		t.Run(name, func(t *testing.T) {
			sys := startSystem(t, on, 2)
			l := startLoad(t, sys)
			fault.begin(t)
			defer fault.heal(t)
			sys.terminate(t)
			l.endBroken(t)
			sys.checkLog(t)
			l.checkFile(t)
		})
	}
}

// When up is killed, its children notice that and end. After a restart on the same data every acknowledged write is
// there.
func TestUp_Killed_LeavesNoChildAndLosesNothing(t *testing.T) {
	t.Parallel()
	on := shared(t)
	sys := startSystem(t, on, 2)
	l := startLoad(t, sys)
	sys.kill(t)
	l.endBroken(t)
	sys.checkLog(t)
	sys.start(t)
	sys.awaitWhole(t, 2)
	l.checkEffects(t)
	sys.checkReplicas(t, 2)
}
