package fault_test

import (
	"strings"
	"testing"
	"time"
)

// Whatever happens to the broker under load, calls get answers that the API documents. When the broker is healed, the system
// becomes whole by itself and nothing is lost or doubled.
func TestSystem_BrokerFaults_AgreedAnswersAndRecovery(t *testing.T) {
	t.Parallel()
	on := startServices(t)
	for name, fault := range map[string]func(t *testing.T, l *load){
		"KilledAndStarted":  brokerKilled,
		"ConnectionsClosed": connectionsClosed,
		"MemoryAlarm":       memoryAlarm.lasts,
		"DiskAlarm":         diskAlarm.lasts,
	} {
		t.Run(name, func(t *testing.T) {
			var env []string
			if strings.HasSuffix(name, "Alarm") {
				env = append(env, "CALL_TIMEOUT="+alarmDeadline.String())
			}
			l := startLoad(t, startSystem(t, on, 2, env...))
			fault(t, l)
			l.await(t, 2)
		})
	}
}

// queueAge is how old a queue has to be before the broker is killed: if a quorum queue is younger than a few seconds,
// RabbitMQ 3.10 never elects a leader for it after the restart.
const queueAge = 8 * time.Second

// While the broker is dead every write is refused, and every read that the cache does not answer. None hangs. The read cache
// may go on answering: persdb still tells the orchestrator that nothing was committed.
func brokerKilled(t *testing.T, l *load) {
	t.Helper()
	alerts := l.sys.watchAlerts(t)
	outlast(t, queueAge)
	l.sys.rabbit.Kill(t)
	l.awaitRefusal(t)
	alerts.Await(t, "RideshareBrokerAway", "RideshareBreakerOpen")
	l.sys.rabbit.Start(t)
}

// The broker is killed twice: the second time, connections that have just come back are lost.
func connectionsClosed(t *testing.T, l *load) {
	t.Helper()
	for range 2 {
		l.sys.rabbit.Ctl(t, "close_all_connections", "fault test")
		l.awaitProgress(t)
	}
}

// Work queues are deleted under their consumers, twice: their consumers declare them again.
func TestSystem_QueuesDeleted_MadeAnewAndNothingLost(t *testing.T) {
	t.Parallel()
	l := startLoad(t, startSystem(t, shared(t), 2))
	for name, queues := range map[string][]string{
		"ReadQ":  {"readQ.v2"},
		"WriteQ": {"writeQ.v3"},
		"All":    {"readQ.v2", "linearQ.v2", "writeQ.v3"},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				l.sys.deleteQueues(t, queues...)
				l.awaitProgress(t)
			}
		})
	}
	l.await(t, 2)
}
