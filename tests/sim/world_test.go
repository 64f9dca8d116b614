package sim_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	coordinproc "rideshare/internal/coord/inproc"
	mqinproc "rideshare/internal/mq/inproc"
	launchinproc "rideshare/orchestrator/launch/inproc"

	"rideshare/internal/dbaas"
	"rideshare/internal/mq"
	"rideshare/internal/rideschema"
	"rideshare/internal/workerapi"
	"rideshare/orchestrator/changes"
	"rideshare/orchestrator/control"
	"rideshare/orchestrator/dispatch"
	"rideshare/orchestrator/readcache"
	"rideshare/persdb/commitlog"
	"rideshare/tests/history"
	"rideshare/worker"
)

// firstSlaves is the number of slaves that is wanted at the start and at the end.
const firstSlaves = 2

// startsPerMinute is so low that some starts are held back.
const startsPerMinute = 5

// hungAfter is twice the default, which halves the processor time that heartbeats take in the simulation.
const hungAfter = 2 * control.DefaultHungAfter

// world is the whole system in one process, without its HTTP servers, with a hook
// for every fault.
type world struct {
	t    *testing.T
	seed uint64
	log  *slog.Logger
	dir  string

	store      *commitlog.Store
	persdb     *line // the line to persdb that all processes share
	broker     *mqinproc.Broker
	coord      *coordinproc.Coordinator
	engine     *engine
	history    *history.Recorder
	ledger     *history.Ledger
	late       sync.WaitGroup
	stepped    atomic.Int64 // of persdb's clock, in nanoseconds
	idsStepped atomic.Int64 // of the orchestrators' clock
	any        *anyClient

	mu            sync.Mutex // guards the fields below
	nodes         map[dbaas.WorkerID]*node
	orchestrators []*orchestrator
	made          int // orchestrators so far
	story         []string
	ids           []dbaas.OpID // of the writes
	accepted      []queued     // asynchronous writes
	views         []seen
	fences        []fence
	wrong         []error
	held          int   // starts that orchestrators delayed
	audited       int64 // answers of caches that were compared with a worker's answer
	hits          int64 // reads that a cache answered
	resumed       int   // streams of changes
}

// node is a worker with its gate and its connection to persdb.
type node struct {
	*worker.Worker
	gate  *gate
	bus   *mqinproc.Conn
	coord *coordinproc.Client
	line  *line
}

// Control returns the worker's control API.
func (n *node) Control() http.Handler { return n.gate.gated(n.Handler()) }

// Kill closes the worker's gate for good and cuts off its connections.
func (n *node) Kill() {
	n.gate.kill()
	n.Worker.Kill()
}

// pause stops the worker's process, resume lets it go on.
func (n *node) pause() {
	n.gate.stop()
	n.coord.Partition()
}

func (n *node) resume() {
	n.gate.resume()
	n.coord.Heal()
}

// newWorld starts the system. It must be called inside a bubble, and end called there too.
func newWorld(t *testing.T, seed uint64, dir string, log *slog.Logger) *world {
	t.Helper()
	w := &world{
		t: t, seed: seed, dir: dir, log: log, nodes: map[dbaas.WorkerID]*node{},
		persdb: newLine(w0(seed, "persdb")), broker: mqinproc.NewBroker(mqinproc.Config{}), history: history.New(), ledger: history.NewLedger(),
	}
	var err error
	if w.store, err = commitlog.Open(t.Context(), commitlog.Config{
		Dir: filepath.Join(dir, "persdb"), Schema: rideschema.Create(), Protected: rideschema.Protected(), Log: log, Now: w.persdbNow,
	}); err != nil {
		t.Fatal(err)
	}
	if w.coord, err = coordinproc.New(coordinproc.Config{}); err != nil {
		t.Fatal(err)
	}
	w.engine = &engine{Launcher: launchinproc.New(launchinproc.Config{Dir: filepath.Join(dir, "workers"), Log: log, Make: w.newNode})}
	w.startOrchestrator()
	return w
}

// w0 returns a separate random source for each user, so that another draw by one user changes nothing for the others.
func w0(seed uint64, who string) *rand.Rand {
	h := uint64(14695981039346656037)
	for _, b := range []byte(who) {
		h = (h ^ uint64(b)) * 1099511628211
	}
	return rand.New(rand.NewPCG(seed, h))
}

func (w *world) newNode(spec launchinproc.Spec) (launchinproc.Worker, error) {
	n := &node{gate: newGate(), bus: w.broker.Dial(string(spec.ID)), coord: w.coord.Dial(), line: newLine(w0(w.seed, string(spec.ID)))}
	n.Worker = worker.New(worker.Config{
		ID: spec.ID, Dir: spec.Dir, Control: spec.Control, Log: w.log,
		Bus: gatedBus{n.bus, n.gate, &lag{rnd: w0(w.seed, "lag of "+string(spec.ID))}}, Coordinator: gatedCoordinator{n.coord, n.gate},
		Store: &link{store: w.store, gate: n.gate, own: n.line, shared: w.persdb, late: &w.late, fenced: w.fenced},
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	w.nodes[spec.ID] = n
	return n, nil
}

// orchestrator is the process of one orchestrator.
type orchestrator struct {
	name       string
	gate       *gate
	conn       *mqinproc.Conn
	coord      *coordinproc.Client
	loop       *control.Loop
	dispatcher *dispatch.Dispatcher
	cache      *readcache.Cache
	feed       *changes.Feed
	line       *line
	end        context.CancelFunc
	running    sync.WaitGroup
}

// startOrchestrator starts one more orchestrator.
func (w *world) startOrchestrator() *orchestrator {
	w.mu.Lock()
	w.made++
	name := fmt.Sprintf("orchestrator-%d", w.made)
	w.mu.Unlock()
	ctx, cancel := context.WithCancel(context.Background())
	o := &orchestrator{name: name, gate: newGate(), conn: w.broker.Dial(name), coord: w.coord.Dial(), line: newLine(w0(w.seed, name)), end: cancel}
	caller := mq.NewCaller(o.conn)
	store := &link{store: w.store, gate: o.gate, own: o.line, shared: w.persdb, late: &w.late, fenced: w.fenced}
	o.loop = control.New(control.Config{
		Log: w.log.With("orchestrator", name), Launcher: w.engine, Coordinator: o.coord, Name: name, Slaves: firstSlaves, StartsPerMinute: startsPerMinute, HungAfter: hungAfter,
		Store:   store,
		Workers: &workerapi.Client{HTTP: &http.Client{Transport: w.engine.Transport()}},
		BusUp:   func() bool { return o.conn.State().Connected },
	})
	o.cache = readcache.New(readcache.Config{
		Log: w.log.With("orchestrator", name), Store: store,
		Ask:     func(ctx context.Context, r dbaas.Read) (dbaas.ReadResult, error) { return o.dispatcher.Read(ctx, r) },
		Seen:    func() dbaas.Seq { return o.dispatcher.SeenSeq() },
		Cluster: func() dbaas.ClusterID { return o.dispatcher.Cluster() },
	})
	o.dispatcher = dispatch.New(dispatch.Config{Caller: caller, Publisher: durable{o.conn}, Availability: o.loop, Head: store.Head, Looked: o.cache.Looked})
	o.feed = changes.New(changes.Config{Log: w.log.With("orchestrator", name), Store: store})
	o.running.Go(func() { _ = o.feed.Run(ctx) })
	o.running.Go(func() { _ = o.cache.Run(ctx) })
	o.running.Go(func() { _ = o.conn.Subscribe(ctx, o.cache.Subscriber()) })
	o.running.Go(func() { o.cache.RunAudits(ctx, time.Second) })
	o.running.Go(func() { _ = caller.Run(ctx) })
	o.running.Go(func() { _ = o.loop.Run(ctx) })
	w.mu.Lock()
	defer w.mu.Unlock()
	w.orchestrators = append(w.orchestrators, o)
	return o
}

// answered counts a read if its answer came from the cache.
func (w *world) answered(level dbaas.CacheLevel) {
	if level == dbaas.LevelHit {
		w.mu.Lock()
		w.hits++
		w.mu.Unlock()
	}
}

// durable is an in-process bus that offers asynchronous writes.
type durable struct{ *mqinproc.Conn }

// Durable returns true.
func (durable) Durable() bool { return true }

// kill ends an orchestrator as SIGKILL does.
func (w *world) kill(o *orchestrator) {
	w.mu.Lock()
	for i, other := range w.orchestrators {
		if other == o {
			w.orchestrators = append(w.orchestrators[:i:i], w.orchestrators[i+1:]...)
			break
		}
	}
	w.mu.Unlock()
	o.conn.Crash()
	o.coord.Crash()
	o.gate.kill()
	o.end()
	o.feed.Close()
	_, held := o.loop.StartsHeldBack()
	cache := o.cache.Status()
	if cache.Mismatches > 0 {
		w.fail(fmt.Errorf("the read cache of %s had %d wrong answers", o.name, cache.Mismatches))
	}
	w.mu.Lock()
	w.held += held
	w.audited += cache.Audited
	w.mu.Unlock()
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	_ = o.dispatcher.Close(gone)
	o.running.Wait()
}

// pick returns a running orchestrator, nil if there is none.
func (w *world) pick(rnd *rand.Rand) *orchestrator {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.orchestrators) == 0 {
		return nil
	}
	return w.orchestrators[rnd.IntN(len(w.orchestrators))]
}

// members returns the nodes of the running workers by role.
func (w *world) members() (master *node, slaves []*node) {
	list, _ := w.engine.Launcher.List(context.Background())
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, in := range list {
		n := w.nodes[in.ID]
		if n == nil || !in.Running {
			continue
		}
		switch n.Status().Role {
		case dbaas.RoleMaster:
			master = n
		case dbaas.RoleSlave:
			slaves = append(slaves, n)
		case dbaas.RoleNone:
		}
	}
	return master, slaves
}

// tell adds a line to the story of the run, which is printed if the run fails.
func (w *world) tell(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	w.log.Info("simulation", "event", line)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.story = append(w.story, time.Now().Format("04:05.000 ")+line)
}

// fence is a claimed epoch and a position of the log. Every entry after the position has this epoch or a newer one.
type fence struct {
	epoch dbaas.Epoch
	after dbaas.Seq
}

func (w *world) fenced(epoch dbaas.Epoch, after dbaas.Seq) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fences = append(w.fences, fence{epoch, after})
}

func (w *world) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wrong = append(w.wrong, err)
}

// end stops the system. No goroutine of the bubble is left when it returns.
func (w *world) end() {
	for {
		o := w.pick(rand.New(rand.NewPCG(0, 0)))
		if o == nil {
			break
		}
		w.kill(o)
	}
	list, _ := w.engine.Launcher.List(context.Background())
	for _, in := range list {
		_ = w.engine.Launcher.Kill(context.Background(), in.ID)
	}
	w.late.Wait()
	if err := w.store.Close(); err != nil {
		w.t.Errorf("close persdb: %v", err)
	}
}

// verdict reports what was wrong, with the story of the run.
func (w *world) verdict() error {
	if len(w.wrong) == 0 {
		return nil
	}
	return fmt.Errorf("%w\n%d faults in all. The story:\n%s", errors.Join(w.wrong[:min(len(w.wrong), 5)]...), len(w.wrong), strings.Join(w.story, "\n"))
}
