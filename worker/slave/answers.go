package slave

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/frame"
	"rideshare/internal/logkey"
	"rideshare/internal/mq"
	"rideshare/internal/reqlog"
)

const (
	// partBytes is how much answer one reply carries at least before it is cut:
	// far below what brokers accept (16 MiB), far above what costs.
	partBytes = 4 << 20
	// lingerAfter is how long a message may take before it counts as lingering: ten times what a
	// slow read may hold up the others.
	lingerAfter = 50 * time.Millisecond
	// maxLingering bounds the messages that are acknowledged but not answered.
	maxLingering = 256
	// minReplyTTL is the shortest life of a reply whose reads are all past their
	// deadline: the caller may be a little more patient than its own deadline.
	minReplyTTL = 100 * time.Millisecond
)

// message is one delivery on its way to being answered.
type message struct {
	exec     *Executor
	delivery mq.Delivery
	shard    dbaas.ShardID
	cluster  dbaas.ClusterID // of the reads' positions; zero for whichever there is
	reads    []dbaas.Read
	latest   time.Time     // the latest deadline
	done     chan struct{} // closed when the last reply was handed over
	// work ends with the worker, and when giveUp is called: then the reads without an answer are refused.
	work   context.Context
	giveUp context.CancelFunc

	mu    sync.Mutex // guards the fields below
	ready []frame.ReadAnswer
	bytes int // of the bodies in ready
	left  int // reads without an answer in ready or sent

	// sending has room for whoever sends replies, so that the last one is the last. It is a
	// channel, since it is held while the broker takes its time.
	sending chan struct{}
	acked   sync.Once
	patient sync.Once
}

// foreign reports whether the positions of the reads are none of a cluster's.
func (m *message) foreign(c dbaas.ClusterID) bool { return !m.cluster.IsZero() && m.cluster != c }

// reader returns a Reader of the cluster that the reads belong to.
func (m *message) reader() (Reader, error) {
	r, err := m.exec.source.Reader()
	if err == nil && m.foreign(r.Cluster()) {
		r.Close()
		return nil, dbaas.Errorf(dbaas.CodeNotCaughtUp, "the replica is of another cluster")
	}
	return r, err
}

// position is what the read at place i must see.
func (m *message) position(i int) dbaas.Head {
	return dbaas.Head{Cluster: m.cluster, Seq: m.reads[i].MinSeq}
}

// add puts the answer to the read at place i aside, for the next flush. took is how
// long it ran, zero if that is not known to be worth telling.
func (m *message) add(i int, r dbaas.ReadResult, took time.Duration) {
	if !m.exec.answers.take(len(r.Body)) {
		r = tooMuch()
	}
	m.exec.count(r.Code)
	if level := reqlog.Level(r.Code, took); level > slog.LevelDebug || m.exec.debug {
		m.exec.log.Log(context.Background(), level, "read served", logkey.RequestID, m.reads[i].RequestID,
			logkey.Seq, r.Seq, logkey.Code, r.Code, logkey.Took, took)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ready = append(m.ready, frame.ReadAnswer{Index: i, Result: r})
	m.bytes += len(r.Body)
	m.left--
}

// refuse answers reads that have no room here, unless the worker has ended.
func (m *message) refuse(ctx context.Context, places []int) {
	if ctx.Err() != nil {
		return
	}
	for _, i := range places {
		m.add(i, crowded(false), 0)
	}
	m.flush(ctx)
}

// take returns what is ready, up to about partBytes, and whether that is the end
// of the message.
func (m *message) take() (answers []frame.ReadAnswer, last bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, size := 0, 0
	for n < len(m.ready) && size < partBytes {
		size += len(m.ready[n].Result.Body)
		n++
	}
	answers, m.ready = m.ready[:n:n], m.ready[n:]
	m.bytes -= size
	return answers, m.left == 0 && len(m.ready) == 0
}

// flush sends what is ready. After the last reply was handed to the broker it
// acknowledges the delivery: before that, a death of this process makes the
// broker deliver it again (but see linger).
func (m *message) flush(ctx context.Context) {
	m.sending <- struct{}{}
	defer func() { <-m.sending }()
	for {
		answers, last := m.take()
		if len(answers) == 0 {
			return
		}
		m.send(ctx, answers, last)
		m.forget(answers)
		if last {
			m.ack(ctx)
			close(m.done)
			return
		}
	}
}

// flushFull sends what is ready if that fills a reply: a run of large answers waits for the broker
// and not the answers for the run's end.
func (m *message) flushFull(ctx context.Context) {
	m.mu.Lock()
	full := m.bytes >= partBytes
	m.mu.Unlock()
	if full {
		m.flush(ctx)
	}
}

// forget lets go of answers that were sent.
func (m *message) forget(answers []frame.ReadAnswer) {
	for i := range answers {
		m.exec.answers.give(len(answers[i].Result.Body))
		answers[i].Result.Body = nil
	}
}

func (m *message) send(ctx context.Context, answers []frame.ReadAnswer, last bool) {
	if m.delivery.Message().ReplyTo == "" {
		return
	}
	body, err := frame.ReadReply{Shard: m.shard, Last: last, Answers: answers}.Encode()
	if err != nil {
		body, err = tooLarge(m.shard, answers, last).Encode()
	}
	if errors.Is(m.reply(ctx, body, err), mq.ErrUnroutable) {
		m.exec.Stats.Unroutable.Add(1)
	}
}

// reply sends body to the caller, or nothing if encoding it ended with err, and returns what went
// wrong. It counts that, but for a caller who is gone.
func (m *message) reply(ctx context.Context, body []byte, err error) error {
	if err == nil {
		request := m.delivery.Message()
		ttl := max(m.latest.Sub(m.exec.now()), minReplyTTL)
		err = m.exec.bus.Reply(ctx, request.ReplyTo, mq.Message{Body: body, ID: request.ID, TTL: ttl})
	}
	if err != nil && !errors.Is(err, mq.ErrUnroutable) {
		m.exec.Stats.ReplyErrors.Add(1)
		m.exec.log.DebugContext(ctx, "reply not sent", logkey.Queue, mq.ReadQ, logkey.Error, err)
	}
	return err
}

// tooLarge is the reply instead of one that no frame can hold.
func tooLarge(shard dbaas.ShardID, answers []frame.ReadAnswer, last bool) frame.ReadReply {
	r := frame.ReadReply{Shard: shard, Last: last}
	for _, a := range answers {
		if len(a.Result.Body) >= partBytes {
			a.Result = dbaas.ReadResult{Code: dbaas.CodeTooLarge, Message: "the answer is over the size limit", Seq: a.Result.Seq}
		}
		r.Answers = append(r.Answers, a)
	}
	return r
}

func (m *message) ack(ctx context.Context) {
	m.acked.Do(func() {
		if err := m.delivery.Ack(); err != nil {
			// The connection is another one by now: somebody answers it again.
			m.exec.log.DebugContext(ctx, "ack came too late", logkey.Queue, mq.ReadQ, logkey.Error, err)
		}
	})
}

// linger is called when a read of the message is slow, or waits for a position or for its second place. If
// the message is not answered soon it is acknowledged before its end:
// otherwise a few reads that nobody can answer yet would take up what this consumer
// may hold, and stop all others. If this worker dies then, the broker gives them to nobody
// else; so the caller is told first who holds them, and sends them again.
//
// room bounds how many linger: a message that finds none is refused, since it would hold up others otherwise. Without
// room nothing bounds them here; that is for slow reads, of which only so many run.
func (m *message) linger(ctx context.Context, room chan struct{}) {
	m.patient.Do(func() {
		m.exec.runs.Go(func() {
			t := time.NewTimer(lingerAfter)
			defer t.Stop()
			select {
			case <-t.C:
			case <-m.done:
				return
			case <-ctx.Done():
				return
			}
			if room != nil {
				select {
				case room <- struct{}{}:
					defer func() { <-room }()
				default:
					m.giveUp()
					return
				}
			}
			m.exec.Stats.Lingered.Add(1)
			if m.tellHeld(ctx, nil) {
				m.ack(ctx)
			}
			select {
			case <-m.done:
			case <-ctx.Done():
			}
		})
	})
}

// tellHeld tells the caller that this worker alone has the message from now on, and, if running is
// given, which read of it runs now and alone. It reports
// false when that did not arrive: the message stays the broker's then.
func (m *message) tellHeld(ctx context.Context, running *int) bool {
	m.sending <- struct{}{} // nothing follows the last reply
	defer func() { <-m.sending }()
	if m.delivery.Message().ReplyTo == "" || closed(m.done) {
		return true
	}
	body, err := frame.ReadHeld{Shard: m.shard, Worker: m.exec.worker, Running: running}.Encode()
	err = m.reply(ctx, body, err)
	return err == nil || errors.Is(err, mq.ErrUnroutable) // nobody waits for it any more
}

func closed(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}
