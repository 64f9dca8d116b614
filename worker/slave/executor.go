package slave

import (
	"cmp"
	"context"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/failpoint"
	"rideshare/internal/logkey"
	"rideshare/internal/mq"
	"rideshare/internal/tracing"
	"rideshare/internal/wait"
	"rideshare/internal/wire"
)

// Executor runs the reads of messages on a replica and answers them. It is safe for concurrent use.
//
// The reads of a message run one after another in one read transaction, or in several if they take long together. That
// costs half as much as a transaction for each read. A read that takes long, or waits for a position, does not delay the
// others.
type Executor struct {
	Stats Stats

	worker     dbaas.WorkerID
	source     Source
	bus        Replier
	log        *slog.Logger
	debug      bool // log has a line for every read
	began      time.Time
	inFlight   atomic.Int64
	fast       chan struct{} // a token for each fast run
	slow       chan struct{} // a token for each slow run
	turns      chan struct{} // a token for each slow run that has a turn
	again      chan struct{} // a token for the run that waits for another fast slot
	alone      chan struct{} // a token for each read whose worker has died
	earlyAcked chan struct{} // a token for each waiting message that was acknowledged early
	answers    budget        // of bytes that are rendered but not sent
	slowReads  slowReads
	vital      vital
	unreadable atomic.Bool // the last Reader could not be opened
	runs       sync.WaitGroup
}

// NewExecutor returns an Executor. Zero fields of c get their defaults.
func NewExecutor(c Config) *Executor {
	return &Executor{
		worker:     c.Worker,
		source:     c.Source,
		bus:        c.Bus,
		log:        c.Log,
		debug:      c.Log.Enabled(context.Background(), slog.LevelDebug),
		began:      time.Now(),
		fast:       make(chan struct{}, cmp.Or(c.Fast, runtime.GOMAXPROCS(0))),
		slow:       make(chan struct{}, cmp.Or(c.Slow, defaultSlow)),
		turns:      make(chan struct{}, max(1, cmp.Or(c.Fast, runtime.GOMAXPROCS(0))/2)),
		again:      make(chan struct{}, 1),
		alone:      make(chan struct{}, maxAlone),
		earlyAcked: make(chan struct{}, maxEarlyAcked),
		answers:    budget{limit: cmp.Or(c.AnswerBytes, DefaultAnswerBytes)},
		slowReads:  newSlowReads(),
		vital:      vital{places: newPlaces(cmp.Or(c.Fast, runtime.GOMAXPROCS(0)))},
	}
}

// now returns the wall-clock time, with which deadlines are compared. Deadlines come from another process, so a
// monotonic clock would not help.
func (e *Executor) now() time.Time { return time.Now() }

// Serve answers every read of req. It acknowledges d after the last reply was handed to the broker, or earlier if that
// takes long. Serve returns when all reads are answered, or when ctx ends. The end of ctx interrupts running reads and
// leaves d unacknowledged.
func (e *Executor) Serve(ctx context.Context, d mq.Delivery, req wire.ReadRequest) {
	e.Stats.Messages.Add(1)
	e.inFlight.Add(int64(len(req.Reads)))
	defer e.inFlight.Add(-int64(len(req.Reads)))
	m := &message{
		exec: e, delivery: d, shard: req.Shard, cluster: req.Cluster, reads: req.Reads, left: len(req.Reads),
		sending: make(chan struct{}, 1), done: make(chan struct{}),
	}
	m.ready = make([]wire.ReadAnswer, 0, len(req.Reads))
	m.work, m.giveUp = context.WithCancel(ctx)
	defer m.giveUp()
	if len(req.Reads) == 0 {
		m.ack(ctx)
		return
	}
	now := e.now()
	m.arrived, m.spans = now, tracing.Received(d.Message().Headers, len(req.Reads))
	indexes := make([]int, len(req.Reads))
	for i := range req.Reads {
		indexes[i] = i
		if req.Reads[i].Deadline.IsZero() {
			req.Reads[i].Deadline = now.Add(maxWait)
		}
		if req.Reads[i].Deadline.After(m.latest) {
			m.latest = req.Reads[i].Deadline
		}
	}
	if d.Redelivered() || req.Again {
		e.runs.Go(func() { e.runAlone(ctx, m, indexes) })
	} else {
		e.schedule(ctx, m, indexes)
	}
	select {
	case <-m.done:
	case <-ctx.Done():
	}
}

// Each calls f with every counter's name and value. Over an interval, the increase of read_busy_us divided by the
// increase of read_places_us is the fraction of the fast slots in use. Slow reads do not use these slots and can raise
// the ratio above one.
func (e *Executor) Each(f func(name string, value int64)) {
	e.Stats.Each(f)
	f("read_busy_us", e.Stats.Busy.Load()/int64(time.Microsecond))
	f("read_places_us", int64(cap(e.fast))*time.Since(e.began).Microseconds())
}

// InFlight returns the number of reads in all messages that are not completely answered.
func (e *Executor) InFlight() int64 { return e.inFlight.Load() }

// Wait returns when no run is active. Call it after the context of every Serve has ended.
func (e *Executor) Wait() { e.runs.Wait() }

// schedule runs the reads whose positions the replica has reached. The other reads wait (await).
func (e *Executor) schedule(ctx context.Context, m *message, indexes []int) {
	applied, ready := e.source.Applied()
	late := func(i int) bool {
		return !ready || m.foreign(applied.Cluster) || m.reads[i].MinSeq > applied.Seq && !failpoint.On(failpoint.NoPositionWait)
	}
	if !slices.ContainsFunc(indexes, late) {
		e.run(ctx, m, indexes)
		return
	}
	var now, later []int
	for _, i := range indexes {
		if late(i) {
			later = append(later, i)
		} else {
			now = append(now, i)
		}
	}
	if len(now) > 0 {
		e.runs.Go(func() { e.run(ctx, m, now) })
	}
	e.await(ctx, m, later)
}

// reopenPause is how long a read waits before it tries again to open a Reader.
const reopenPause = 50 * time.Millisecond

// awaitAgain is await for reads for which no Reader could be opened. Usually the replica has just been discarded. If it
// counts as readable and yet cannot be opened, the pause keeps the reads from trying all the time.
func (e *Executor) awaitAgain(ctx context.Context, m *message, indexes []int) {
	wait.For(m.work, reopenPause)
	e.await(ctx, m, indexes)
}

// logOpened logs when Readers can no longer be opened although the replica may be read, and when they can again. err is
// the result of opening one.
func (e *Executor) logOpened(err error) {
	switch {
	case err == nil:
		if e.unreadable.Load() && e.unreadable.Swap(false) {
			e.log.Info("the replica can be read again")
		}
	case dbaas.CodeOf(err) != dbaas.CodeNotCaughtUp:
		if !e.unreadable.Swap(true) {
			e.log.Error("the replica cannot be read, reads wait until their deadlines", logkey.Error, err)
		}
	}
}

// await runs each read once the replica has reached its position. A read whose deadline passes first gets
// CodeNotCaughtUp at that time.
func (e *Executor) await(ctx context.Context, m *message, indexes []int) {
	m.earlyAck(ctx, e.earlyAcked)
	slices.SortStableFunc(indexes, func(a, b int) int { return cmp.Compare(m.reads[a].MinSeq, m.reads[b].MinSeq) })
	if left := expire(m, indexes, e.now()); len(left) < len(indexes) {
		indexes = left
		m.flush(ctx)
	}
	for len(indexes) > 0 {
		earliest := m.reads[indexes[0]].Deadline
		for _, i := range indexes {
			if d := m.reads[i].Deadline; d.Before(earliest) {
				earliest = d
			}
		}
		waitCtx, cancel := context.WithDeadline(m.work, earliest)
		err := e.source.WaitApplied(waitCtx, m.position(indexes[0]))
		cancel()
		if m.work.Err() != nil {
			m.refuse(ctx, indexes)
			return
		}
		if err == nil {
			indexes = e.release(ctx, m, indexes)
			continue
		}
		indexes = expire(m, indexes, earliest)
		m.flush(ctx)
	}
}

// release starts one run of the reads whose positions the replica has reached, and returns the others. indexes is
// ordered by position.
func (e *Executor) release(ctx context.Context, m *message, indexes []int) []int {
	applied, _ := e.source.Applied()
	n := 0
	for n < len(indexes) && m.reads[indexes[n]].MinSeq <= applied.Seq && !m.foreign(applied.Cluster) {
		n++
	}
	if n > 0 {
		reached := indexes[:n:n]
		e.runs.Go(func() { e.run(ctx, m, reached) })
	}
	return indexes[n:]
}

// expire answers the reads whose deadline is not after now and returns the others.
func expire(m *message, indexes []int, now time.Time) []int {
	return slices.DeleteFunc(indexes, func(i int) bool {
		if m.reads[i].Deadline.After(now) {
			return false
		}
		m.add(i, notCaughtUp(), 0)
		return true
	})
}

func notCaughtUp() dbaas.ReadResult {
	return dbaas.ReadResult{Code: dbaas.CodeNotCaughtUp, Message: "the worker has not caught up with the wanted position"}
}

// crowded returns the answer to a read that is refused because too many reads wait or, if slow, too many slow reads
// run.
func crowded(slow bool) dbaas.ReadResult {
	r := dbaas.ReadResult{Code: dbaas.CodeUnavailable, Message: "too many reads wait at the moment; try again"}
	if slow {
		r.Message = "too many slow reads run at the moment; try again"
	}
	return r
}

// tooMuch returns the answer to a read whose answer exceeds the budget of unsent answers.
func tooMuch() dbaas.ReadResult {
	return dbaas.ReadResult{Code: dbaas.CodeUnavailable, Message: "too many large answers are under way at the moment; try again"}
}

func timedOut() dbaas.ReadResult {
	return dbaas.ReadResult{Code: dbaas.CodeTimeout, Message: "the read was not done in time"}
}

func (e *Executor) count(code dbaas.Code) {
	e.Stats.Reads.Add(1)
	switch code { //nolint:exhaustive // all other codes are failures.
	case dbaas.CodeOK:
	case dbaas.CodeTimeout:
		e.Stats.Expired.Add(1)
	case dbaas.CodeNotCaughtUp:
		e.Stats.NotCaughtUp.Add(1)
	case dbaas.CodeUnavailable:
		e.Stats.Crowded.Add(1)
	default:
		e.Stats.Failed.Add(1)
	}
}
