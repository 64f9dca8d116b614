package fault_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"rideshare/internal/testkit/failpointtest"
	"rideshare/internal/testkit/testenv"
	"rideshare/internal/wait"
)

const (
	// startLimit bounds the time from exec to the ready file.
	startLimit = 60 * time.Second
	// stopLimit is the promise of the command: it ends within 10 s of SIGTERM.
	stopLimit = 10 * time.Second
	// orphanLimit is how long a child may outlive its parent.
	orphanLimit = 10 * time.Second
	// healLimit bounds the time from the end of a fault until the system is whole.
	healLimit = 60 * time.Second
	// callTimeout is the system's deadline for each call. An answer that comes later than answerLate after that is too late; the
	// client still waits for it until clientLimit.
	callTimeout = 3 * time.Second
	answerLate  = 10 * time.Second
	clientLimit = time.Minute
	// patient is a setting for tests in which no call may fail. It sets a deadline that no call misses on a busy machine.
	patient, patience = "CALL_TIMEOUT=30s", 30 * time.Second
	// unhurried is a setting for tests in which some calls are to be refused at their deadline and no other call may fail.
	unhurried = "CALL_TIMEOUT=10s"
	// hanging is a setting for tests in which hung workers are to be replaced: it is the default of the command. In the other tests a
	// worker may stand still because the machine is busy.
	hanging = "HUNG_AFTER=600ms"
	// failoverLimit bounds the time without acknowledged writes after a master's death. It is less than slowSession: the failover must not
	// wait until the session ends.
	failoverLimit = 15 * time.Second
	slowSession   = "RIDESHARE_SESSION=20s"
)

// markerEnv is a variable in the environment of a system and of its children. By it the tests find processes that were left behind.
const markerEnv = "RIDESHARE_FAULT_SYSTEM"

// services are a broker and a coordinator, which the tests that own them may break.
type services struct {
	rabbit, zoo *testenv.Service
}

// startServices starts a broker and a coordinator for this test alone.
func startServices(t *testing.T) services {
	t.Helper()
	return services{rabbit: testenv.StartRabbitMQ(t), zoo: testenv.StartZooKeeper(t)}
}

// shared returns services that all tests share. The test must not break them; its queues and nodes are removed at its end.
func shared(t *testing.T) services {
	t.Helper()
	return services{rabbit: &testenv.Service{URL: testenv.RabbitMQ(t)}, zoo: &testenv.Service{URL: testenv.ZooKeeper(t)}}
}

// ownCoordinator returns the shared broker and a coordinator for this test alone.
func ownCoordinator(t *testing.T) services {
	t.Helper()
	on := shared(t)
	on.zoo = testenv.StartZooKeeper(t)
	return on
}

// system is a running `rideshare up` with its workers and persdb as processes.
type system struct {
	services
	id, dir      string
	number       int
	slaves       int      // at the first start
	env          []string // additional settings, NAME=value
	prefix       string   // before the names of its queues
	orchestrator string   // base URL
	client       *http.Client
	failpoints   failpointtest.Dir // empty: the binary has no failpoints
	persdbURL    string            // URL of a separate persdb; empty: up starts its own
	endPersdb    func()
	wrongCache   bool              // the test makes cached answers wrong
	prepare      func(*exec.Cmd)   // changes the command of up before its start; nil: no change
	host         func(pid int) int // maps a pid that the system reports to the pid that the test sees

	cmd  *exec.Cmd
	done chan struct{} // closed when the process is gone and reaped
	err  error         // how it ended; readable once done is closed
}

// systems numbers the systems of a run, so that their names are unique.
var systems atomic.Int64

// startSystem runs a system with that many slaves for this test. settings, each NAME=value, override those of the fault tests. The
// system is ended by SIGTERM at the end of the test, unless the test has ended it before.
func startSystem(t *testing.T, on services, slaves int, env ...string) *system {
	t.Helper()
	s := newSystem(t, on, slaves)
	s.env = env
	s.start(t)
	return s
}

// startFailable is startSystem with a binary that has failpoints.
func startFailable(t *testing.T, on services, slaves int, env ...string) *system {
	t.Helper()
	s := newSystem(t, on, slaves)
	s.env = env
	s.failpoints = failpointtest.NewDir(t)
	s.start(t)
	return s
}

// newSystem returns a system that is not started yet.
func newSystem(t *testing.T, on services, slaves int) *system {
	t.Helper()
	number := int(systems.Add(1))
	id := fmt.Sprintf("fault-%d-%d", os.Getpid(), number)
	s := &system{
		services: on, id: id, number: number, endPersdb: func() {}, host: func(pid int) int { return pid }, dir: t.TempDir(), prefix: id + ".", slaves: slaves,
		client: &http.Client{Timeout: clientLimit, Transport: &http.Transport{MaxIdleConnsPerHost: 100}},
	}
	t.Cleanup(func() { s.end(t) })
	return s
}

// start runs the process and waits until it is ready. Called again, it uses the same data.
func (s *system) start(t *testing.T) {
	t.Helper()
	build := binary
	if s.failpoints != "" {
		build = failableBinary
	}
	began := time.Now()
	path, err := build()
	if err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > time.Second {
		t.Logf("waited %v for the build of the binary", took.Round(time.Second))
	}
	cmd := exec.Command(path, s.args()...) // The cleanup ends it.
	cmd.Env = append(os.Environ(), markerEnv+"="+s.id, "CALL_TIMEOUT="+callTimeout.String(), "HUNG_AFTER=1m", "SCALE_PERIOD=24h", "CACHE_AUDIT=1s", "LOG_LEVEL=info", s.failpoints.Env())
	cmd.Env = append(cmd.Env, s.env...) // the last one of a name counts
	if s.prepare != nil {
		s.prepare(cmd)
	}
	if err = s.run(cmd); err != nil {
		t.Fatal(err)
	}
	s.awaitReady(t)
}

func (s *system) args() []string {
	if s.persdbURL != "" {
		return []string{
			"orchestrator", "--listen", s.listen(), "--data", s.dir, "--persdb-url", s.persdbURL,
			"--bus", s.rabbit.URL, "--coordinator", s.zoo.URL + "/" + s.id, "--prefix", s.prefix, "--slaves", strconv.Itoa(s.slaves),
		}
	}
	return []string{
		"up", "--data", filepath.Join(s.dir, "data"), "--ready-file", s.readyFile(),
		"--gateway", "127.0.0.1:0", "--users", "127.0.0.1:0", "--rides", "127.0.0.1:0", "--orchestrator", "127.0.0.1:0",
		"--bus", s.rabbit.URL, "--coordinator", s.zoo.URL + "/" + s.id, "--launcher", "process",
		"--prefix", s.prefix, "--slaves", strconv.Itoa(s.slaves),
	}
}

// run starts the process. Its output goes to a file, which has even the last lines of a killed process.
func (s *system) run(cmd *exec.Cmd) error {
	out, err := os.OpenFile(s.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = out.Close() }() // The child has its own copy.
	cmd.Stdout, cmd.Stderr = out, out
	if err = cmd.Start(); err != nil {
		return err
	}
	done := make(chan struct{})
	s.cmd, s.done = cmd, done
	go func() { // ends with the process
		s.err = cmd.Wait()
		close(done)
	}()
	return nil
}

// listen returns a loopback address that only this system of this process uses.
func (s *system) listen() string {
	n := os.Getpid()<<8 + s.number
	return fmt.Sprintf("127.%d.%d.%d:9500", 1+n>>16&0x7f, n>>8&0xff, 1+n&0x7f)
}

func (s *system) readyFile() string { return filepath.Join(s.dir, "ready.json") }
func (s *system) logFile() string   { return filepath.Join(s.dir, "up.log") }

func (s *system) awaitReady(t *testing.T) {
	t.Helper()
	testenv.Eventually(t, startLimit, func() error {
		select {
		case <-s.done:
			t.Fatalf("up ended before it was ready: %v", cmp.Or(s.err, errors.New("exit status 0")))
		default:
		}
		if s.persdbURL != "" {
			s.orchestrator = "http://" + s.listen()
			_, err := get[json.RawMessage](s, "/readyz")
			return err
		}
		text, err := os.ReadFile(s.readyFile())
		if err != nil {
			return err
		}
		var urls struct{ Orchestrator string }
		if err = json.Unmarshal(text, &urls); err != nil {
			return err
		}
		s.orchestrator = urls.Orchestrator
		return nil
	})
}

func (s *system) running() bool {
	return s.cmd != nil && !wait.Closed(s.done)
}

// removeQueues removes the system's queues from a broker that other systems use too.
func (s *system) removeQueues(t *testing.T) {
	t.Helper()
	if s.rabbit.Own() {
		return
	}
	s.deleteQueues(t, "readQ.v2", "linearQ.v2", "writeQ.v3", "dead.write.v3")
	if err := s.atBroker(func(ch *amqp091.Channel) error {
		return ch.ExchangeDelete(s.prefix+"syncQ.v1", false, false)
	}); err != nil {
		t.Errorf("remove the exchange: %v", err)
	}
}

// deleteQueues deletes queues of the system even if they are in use.
func (s *system) deleteQueues(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		if err := s.atBroker(func(ch *amqp091.Channel) error {
			_, err := ch.QueueDelete(s.prefix+name, false, false, false)
			return err
		}); err != nil {
			t.Errorf("delete %s: %v", name, err)
		}
	}
}

// atBroker calls do with a channel of a new connection to the broker.
func (s *system) atBroker(do func(*amqp091.Channel) error) error {
	conn, err := amqp091.Dial(s.rabbit.URL)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	return do(ch)
}
