package slave

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/logkey"
	"rideshare/internal/mq"
	"rideshare/internal/reqlog"
	"rideshare/internal/tracing"
	"rideshare/internal/wait"
	"rideshare/internal/wire"
)

const (
	// partBytes is the size at which a reply is split: far below what brokers accept (16 MiB), and far above the size at
	// which the overhead of a reply matters.
	partBytes = 4 << 20
	// earlyAckAfter is how long a message may take before it is acknowledged early: ten times slowAfter.
	earlyAckAfter = 50 * time.Millisecond
	// announceTime is how long a notification of the caller may take, and the pause after a notification that was not sent.
	announceTime = 200 * time.Millisecond
	// maxEarlyAcked bounds the waiting messages that are acknowledged but not answered.
	maxEarlyAcked = 256
	// minReplyTTL is the shortest TTL of a reply whose reads are all past their deadline: the caller may wait a little
	// longer than its own deadline.
	minReplyTTL = 100 * time.Millisecond
)

// message is one delivery that is being answered.
type message struct {
	exec     *Executor
	delivery mq.Delivery
	shard    dbaas.ShardID
	cluster  dbaas.ClusterID // the cluster of the reads' positions; zero for any cluster
	reads    []dbaas.Read
	arrived  time.Time
	spans    tracing.Message
	latest   time.Time     // the latest deadline
	done     chan struct{} // closed when the last reply was handed to the bus
	// work ends with the worker, or when giveUp is called. After giveUp the unanswered reads are refused.
	work   context.Context
	giveUp context.CancelFunc

	mu    sync.Mutex // guards the fields below
	ready []wire.ReadAnswer
	bytes int // of the bodies in ready
	left  int // reads without an answer in ready or sent

	// sending is a lock with room for one sender of replies, so that the last reply is sent last. It is a channel
	// because a sender holds it while it waits for the broker.
	sending chan struct{}
	acked   sync.Once
	waiting sync.Once
}

// foreign reports whether the reads' positions belong to a cluster other than c.
func (m *message) foreign(c dbaas.ClusterID) bool { return !m.cluster.IsZero() && m.cluster != c }

// reader returns a Reader of the cluster that the reads belong to.
func (m *message) reader() (Reader, error) {
	r, err := m.exec.source.Reader()
	m.exec.logOpened(err)
	if err == nil && m.foreign(r.Cluster()) {
		r.Close()
		return nil, dbaas.Errorf(dbaas.CodeNotCaughtUp, "the replica is of another cluster")
	}
	return r, err
}

// position returns the position that read i must see.
func (m *message) position(i int) dbaas.Head {
	return dbaas.Head{Cluster: m.cluster, Seq: m.reads[i].MinSeq}
}

// add stores the answer to read i for the next flush. took is how long the read ran; zero if that is unknown or not
// worth logging.
func (m *message) add(i int, r dbaas.ReadResult, took time.Duration) {
	if !m.exec.answers.take(len(r.Body)) {
		r = tooMuch()
	}
	m.exec.count(r.Code)
	if level := reqlog.Level(r.Code, took); level > slog.LevelDebug || m.exec.debug {
		m.exec.log.Log(m.spans.Context(context.Background(), i), level, "read served", logkey.RequestID, m.reads[i].RequestID,
			logkey.Seq, r.Seq, logkey.Code, r.Code, logkey.Took, took)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ready = append(m.ready, wire.ReadAnswer{Index: i, Result: r})
	m.bytes += len(r.Body)
	m.left--
}

// refuse answers the given reads with CodeUnavailable (crowded), unless the worker has ended.
func (m *message) refuse(ctx context.Context, indexes []int) {
	if ctx.Err() != nil {
		return
	}
	for _, i := range indexes {
		m.add(i, crowded(false), 0)
	}
	m.flush(ctx)
}

// take removes and returns ready answers of up to about partBytes, and reports whether they are the message's last.
func (m *message) take() (answers []wire.ReadAnswer, last bool) {
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

// flush sends the ready answers. It acknowledges the delivery after the last reply was handed to the broker: if this
// process dies earlier, or ctx ends, the broker redelivers the message (but see earlyAck).
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
		if ctx.Err() != nil {
			return // perhaps the reply was not sent
		}
		if last {
			m.ack(ctx)
			close(m.done)
			return
		}
	}
}

// full reports whether the ready answers fill a reply (partBytes).
func (m *message) full() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.bytes >= partBytes
}

// forget releases the memory of answers that were sent.
func (m *message) forget(answers []wire.ReadAnswer) {
	for i := range answers {
		m.exec.answers.give(len(answers[i].Result.Body))
		answers[i].Result.Body = nil
	}
}

func (m *message) send(ctx context.Context, answers []wire.ReadAnswer, last bool) {
	if m.delivery.Message().ReplyTo == "" {
		return
	}
	body, err := wire.ReadReply{Shard: m.shard, Last: last, Answers: answers}.Encode()
	if err != nil {
		body, err = tooLarge(m.shard, answers, last).Encode()
	}
	if errors.Is(m.reply(ctx, body, err), mq.ErrUnroutable) {
		m.exec.Stats.Unroutable.Add(1)
	}
}

// reply sends body to the caller. err is the error of encoding body; if it is not nil, reply sends nothing. reply
// returns the error, and counts it unless the caller has gone (mq.ErrUnroutable).
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

// tooLarge returns a reply that replaces one that is too large for a frame: its large answers become CodeTooLarge.
func tooLarge(shard dbaas.ShardID, answers []wire.ReadAnswer, last bool) wire.ReadReply {
	r := wire.ReadReply{Shard: shard, Last: last}
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
			// The delivery's connection was lost, and the message is redelivered and answered again.
			m.exec.log.DebugContext(ctx, "ack came too late", logkey.Queue, mq.ReadQ, logkey.Error, err)
		}
	})
}

// earlyAck is called when a read of the message is slow, or waits for a position or for another slot. If the message is
// not answered within earlyAckAfter, earlyAck acknowledges it early. Otherwise a few reads that cannot be answered yet
// would fill this consumer's prefetch and block all other reads. After an early acknowledgement the broker no longer
// redelivers the message if this worker dies. So earlyAck first notifies the caller which worker holds the message; the
// caller resends the reads if that worker dies.
//
// room bounds how many waiting messages are acknowledged early. If room is full, the message is refused, since it would
// block others. A nil room sets no bound; it is for slow reads, whose number is bounded by the slow slots.
func (m *message) earlyAck(ctx context.Context, room chan struct{}) {
	m.waiting.Do(func() {
		m.exec.runs.Go(func() {
			t := time.NewTimer(earlyAckAfter)
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
			m.exec.Stats.AckedEarly.Add(1)
			for !m.announceHeld(ctx, nil) {
				select {
				case <-time.After(announceTime):
				case <-m.done:
					return
				case <-ctx.Done():
					return
				}
			}
			m.ack(ctx)
			select {
			case <-m.done:
			case <-ctx.Done():
			}
		})
	})
}

// announceHeld notifies the caller that from now on only this worker holds the message and, if running is not nil, that
// read *running now runs alone. It reports false if the notification was not sent: the message then stays unacknowledged.
//
// A missing confirm does not count as not sent. It usually means that the caller's reply queue is at a silent node: the
// caller takes another queue within 2 s, and resends the reads. Messages that stay unacknowledged would fill the prefetch,
// and the resent reads would wait behind them.
func (m *message) announceHeld(ctx context.Context, running *int) bool {
	m.sending <- struct{}{} // no notification may follow the last reply
	defer func() { <-m.sending }()
	if m.delivery.Message().ReplyTo == "" || wait.Closed(m.done) {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, announceTime)
	defer cancel()
	body, err := wire.ReadHeld{Shard: m.shard, Worker: m.exec.worker, Running: running}.Encode()
	err = m.reply(ctx, body, err)
	return err == nil || errors.Is(err, mq.ErrUnconfirmed) || errors.Is(err, mq.ErrUnroutable) // unroutable: the caller no longer waits
}
