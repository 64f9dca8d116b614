package dispatch_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/mq"
	"rideshare/internal/wait"
	"rideshare/internal/wire"
	"rideshare/orchestrator/admission"
	"rideshare/orchestrator/dispatch"
)

// database answers with its head once it has one.
type database struct {
	seq     atomic.Uint64
	cluster atomic.Uint32
	asked   atomic.Int64
	slow    time.Duration
}

func (s *database) Head(ctx context.Context) (dbaas.Head, error) {
	s.asked.Add(1)
	if s.slow > 0 {
		select {
		case <-time.After(s.slow):
		case <-ctx.Done():
		}
	}
	if s.seq.Load() == 0 {
		return dbaas.Head{}, errors.New("persdb is away")
	}
	return dbaas.Head{Cluster: dbaas.ClusterID{byte(s.cluster.Load())}, Seq: dbaas.Seq(s.seq.Load())}, nil
}

func recent(r dbaas.Read) dbaas.Read {
	r.Recent = true
	return r
}

func at(seq dbaas.Seq) dbaas.Read {
	r := read("x")
	r.MinSeq = seq
	return r
}

// Until persdb's head has been seen, reads that must see every acknowledged write wait for it within their deadlines. All
// other reads are sent.
func TestDispatcher_Read_RecentWaitsForTheFirstHead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		call, messages := held()
		db := &database{}
		d := newDispatcher(t, dispatch.Config{Caller: call, Head: db.Head})
		answers := make(chan answer, 2)
		ask(t.Context(), d, read("none"), answers)
		(<-messages).all()
		<-answers
		began := time.Now()
		ask(t.Context(), d, recent(read("first")), answers)
		if a := <-answers; dbaas.CodeOf(a.err) != dbaas.CodeUnavailable || time.Since(began) > 5*time.Second || len(messages) != 0 {
			t.Errorf("without a head: got %+v after %v, want unavailable within the deadline", a, time.Since(began))
		}
		if _, err := d.AwaitSeen(t.Context(), time.Now().Add(time.Second)); dbaas.CodeOf(err) != dbaas.CodeUnavailable {
			t.Errorf("AwaitSeen: got %v, want unavailable", err)
		}
		ask(t.Context(), d, recent(read("second")), answers)
		synctest.Wait()
		db.seq.Store(100)
		m := <-messages
		if m.reads[0].MinSeq != 100 {
			t.Errorf("got position %d, want the head", m.reads[0].MinSeq)
		}
		m.all()
		if a := <-answers; a.err != nil {
			t.Errorf("with a head: got %v", a.err)
		}
	})
}

// Writes that an earlier process or another orchestrator acknowledged are seen after a second at most, writes
// acknowledged here immediately.
func TestDispatcher_SeenSeq_FollowsTheHead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		call, messages := held()
		db := &database{}
		db.seq.Store(7)
		d := newDispatcher(t, dispatch.Config{Caller: call, Head: db.Head})
		synctest.Wait()
		if got := d.SeenSeq(); got != 7 {
			t.Errorf("after the start: got %d, want persdb's head 7", got)
		}
		db.seq.Store(9)
		<-time.After(time.Second)
		synctest.Wait()
		if got := d.SeenSeq(); got != 9 {
			t.Errorf("a second later: got %d, want persdb's head 9", got)
		}
		done := write(t.Context(), d, operation(1))
		(<-messages).commit(11)
		<-done
		if got := d.SeenSeq(); got != 11 {
			t.Errorf("after a write: got %d, want 11", got)
		}
	})
}

// A persdb that takes nearly half a second for each answer, and has read its head before that, keeps the second.
func TestDispatcher_SeenSeq_SlowHead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := &database{}
		db.seq.Store(7)
		looked := make(chan struct{}, 100)
		head := func(ctx context.Context) (dbaas.Head, error) {
			h, err := db.Head(ctx)
			looked <- struct{}{}
			wait.For(ctx, 450*time.Millisecond)
			return h, err
		}
		d := newDispatcher(t, dispatch.Config{Head: head})
		for range 2 {
			<-looked
		}
		db.seq.Store(9) // just after persdb has read its head
		<-time.After(time.Second)
		if got := d.SeenSeq(); got != 9 {
			t.Errorf("a second later: got %d, want persdb's head 9", got)
		}
	})
}

// A cluster that the dispatcher does not know may be the present one: persdb is asked.
func TestDispatcher_CheckCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := &database{}
		db.seq.Store(1)
		db.cluster.Store(1)
		d := newDispatcher(t, dispatch.Config{Head: db.Head})
		synctest.Wait()
		check := func(id byte, want dbaas.Code) {
			t.Helper()
			err := d.CheckCluster(t.Context(), dbaas.ClusterID{id}, time.Now().Add(time.Second))
			if got := dbaas.CodeOf(err); got != want {
				t.Errorf("cluster %d: got %v, want %q", id, err, want)
			}
		}
		check(1, dbaas.CodeOK)
		check(2, dbaas.CodeGone)
		db.cluster.Store(2)
		check(2, dbaas.CodeOK)
		check(1, dbaas.CodeGone)
		db.seq.Store(0) // persdb is away
		check(1, dbaas.CodeUnavailable)
		check(2, dbaas.CodeOK)
	})
}

// When persdb has another cluster id, the positions of the old cluster are forgotten with the next head. So is a position
// in a late answer from the old cluster. Reads carry the cluster id that their positions belong to.
func TestDispatcher_SeenSeq_ForgottenWithTheCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		call, messages := held()
		db := &database{}
		db.seq.Store(100)
		db.cluster.Store(1)
		d := newDispatcher(t, dispatch.Config{Caller: call, Head: db.Head})
		synctest.Wait()
		db.seq.Store(7)
		look := func(step string, want dbaas.Seq, cluster byte) {
			t.Helper()
			<-time.After(time.Second)
			synctest.Wait()
			if got := d.SeenSeq(); got != want || d.Cluster() != (dbaas.ClusterID{cluster}) {
				t.Errorf("%s: got %d of %s, want %d of cluster %d", step, got, d.Cluster(), want, cluster)
			}
		}
		look("the same cluster lost entries", 100, 1)
		db.cluster.Store(2)
		look("another cluster", 7, 2)
		answers := make(chan answer, 1)
		ask(t.Context(), d, recent(read("x")), answers)
		m := <-messages
		if m.reads[0].MinSeq != 7 || m.cluster != (dbaas.ClusterID{2}) {
			t.Errorf("a read goes out at %d of %s, want 7 of cluster 2", m.reads[0].MinSeq, m.cluster)
		}
		m.all()
		<-answers
		go func() { _, _ = d.Write(t.Context(), operation(1)) }()
		if m = <-messages; m.ops[0].SeenSeq != 7 || m.ops[0].Cluster != (dbaas.ClusterID{2}) {
			t.Errorf("a write goes out at %d of %s, want 7 of cluster 2", m.ops[0].SeenSeq, m.ops[0].Cluster)
		}
		m.commit(7)
		d.SawSeq(101)
		look("a late answer", 7, 2)
	})
}

// A read for a position that no write has reached is refused after persdb was asked once. A read waits if its position
// is one of the next few, if another orchestrator has just acknowledged it, or if persdb does not answer.
func TestDispatcher_Read_PositionBeyondTheHeadIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		call, messages := held()
		db := &database{}
		db.seq.Store(100)
		d := newDispatcher(t, dispatch.Config{Caller: call, Head: db.Head})
		synctest.Wait()
		answers := make(chan answer, 1)
		for _, c := range []struct {
			head    uint64
			wanted  dbaas.Seq
			refused bool
		}{{100, 1 << 60, true}, {100, 101, false}, {100, 1000, true}, {1000, 1000, false}, {0, 5000, false}, {2000, 5000, true}} {
			db.seq.Store(c.head)
			began := time.Now()
			ask(t.Context(), d, at(c.wanted), answers)
			if !c.refused {
				(<-messages).all()
			}
			a := <-answers
			if refused := dbaas.CodeOf(a.err) == dbaas.CodeNotCaughtUp && errors.Is(a.err, admission.ErrNotSent); refused != c.refused || time.Since(began) > 0 {
				t.Errorf("position %d with head %d: got %v after %v, refused: want %v", c.wanted, c.head, a.err, time.Since(began), c.refused)
			}
		}
	})
}

// Many reads for far positions share questions to persdb, and each read gets a head from after its arrival.
func TestDispatcher_Read_FarPositionsShareOneLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		call, messages := held()
		db := &database{slow: 10 * time.Millisecond}
		db.seq.Store(100)
		d := newDispatcher(t, dispatch.Config{Caller: call, Head: db.Head})
		<-time.After(20 * time.Millisecond)
		before := db.asked.Load()
		answers := make(chan answer, 1001)
		for range 1000 {
			ask(t.Context(), d, at(1<<40), answers)
		}
		synctest.Wait()
		<-time.After(5 * time.Millisecond) // one question is under way, the next one has not been asked
		db.seq.Store(1 << 40)
		late := read("late")
		late.MinSeq = 1 << 40
		ask(t.Context(), d, late, answers)
		<-time.After(20 * time.Millisecond)
		synctest.Wait()
		for len(messages) > 0 {
			(<-messages).all()
			synctest.Wait()
		}
		for range 1001 {
			if a := <-answers; a.err != nil && (a.name == "late" || dbaas.CodeOf(a.err) != dbaas.CodeNotCaughtUp) {
				t.Errorf("read %s: got %v", a.name, a.err)
			}
		}
		if asked := db.asked.Load() - before; asked > 2 {
			t.Errorf("persdb was asked %d times, want at most 2", asked)
		}
	})
}

// Messages that workers announced to hold do not count against MaxMessages.
func TestDispatcher_Read_HeldMessagesDoNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		call, messages := held()
		d := newDispatcher(t, dispatch.Config{Caller: call})
		answers := make(chan answer, 200)
		for range 140 {
			r := at(5)
			r.Deadline = time.Now().Add(50 * time.Second)
			ask(t.Context(), d, r, answers)
			(<-messages).heldBy("w1")
			<-time.After(6 * time.Millisecond)
		}
		ask(t.Context(), d, read("other"), answers)
		synctest.Wait()
		if len(messages) != 1 {
			t.Fatalf("got %d messages, want the one of the other read", len(messages))
		}
		(<-messages).all()
		if a := <-answers; a.name != "other" || a.err != nil {
			t.Errorf("got %+v, want the other read's answer", a)
		}
	})
}

// While persdb does not answer this orchestrator, others may write, and persdb forgets what is older than a minute. So the
// master is asked for the position, and a write carries a position that is not too old. Otherwise the master is not asked.
func TestDispatcher_Write_PersdbLostHereAlone_PositionOfTheMaster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		call, messages := held()
		db := &database{}
		db.seq.Store(7)
		d := newDispatcher(t, dispatch.Config{Caller: call, Head: db.Head})
		<-time.After(time.Minute)
		if len(messages) != 0 {
			t.Fatalf("persdb answers: got %d messages, want none", len(messages))
		}
		db.seq.Store(0) // persdb is away
		for seq := dbaas.Seq(100); seq < 103; seq++ {
			var m *message
			select {
			case m = <-messages:
			case <-time.After(30 * time.Second):
			}
			if m == nil || m.queue != mq.LinearQ {
				t.Fatalf("got %+v, want a linearizable read within half a minute", m)
			}
			m.send(wire.ReadReply{Last: true, Answers: []wire.ReadAnswer{{Result: dbaas.ReadResult{Seq: seq}}}}.Encode())
			synctest.Wait()
			done := write(t.Context(), d, operation(byte(seq)))
			m = <-messages
			if m.ops[0].SeenSeq != seq {
				t.Errorf("a write goes out at %d, want %d", m.ops[0].SeenSeq, seq)
			}
			m.commit(seq)
			<-done
		}
	})
}
