package amqp

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

const (
	// memberLimit bounds the wait for the answers that show whether a node belongs to the cluster.
	memberLimit = time.Second
	// memberPeriod is the pause between two such checks.
	memberPeriod = 2 * time.Second
	// pulsePeriod is the pause between two requests that make the node send bytes.
	pulsePeriod = 500 * time.Millisecond
	// silentLimit is how long the node may send nothing after such a request, if the settings name no other limit. A read
	// whose answer goes to a paused node waits for up to pulsePeriod plus silentLimit.
	silentLimit = time.Second
)

// errCutOff is the reason for the end of a session whose node does not find the others.
var errCutOff = errors.New("the node is cut off from most nodes of its cluster")

// dialMember connects to a node of a cluster that belongs to the majority, and ends the session when the node is cut off.
// must names queues besides those of reads that must exist. With a single node it is dialSession.
func dialMember(ctx context.Context, c Config, at node, name string, must ...string) (*session, error) {
	s, err := dialSession(ctx, c, at, name)
	if err != nil || !c.cluster() {
		return s, err
	}
	stop := context.AfterFunc(ctx, func() { s.kill(ctx.Err()) }) // Close does not wait for answers
	defer stop()
	n := newNames(c.Prefix)
	if err = s.member(n, c, must); err != nil {
		s.kill(err)
		return nil, err
	}
	go s.watchMember(n, c) // ends with the session
	return s, nil
}

// look asks for the state of a queue on a channel of its own. The answer that a queue does not exist closes the channel.
// If the queue's node is silent there is no answer before the session ends, or the cluster notices.
func (s *session) look(name string) (amqp091.Queue, error) {
	ch, err := s.conn.Channel()
	if err != nil {
		return amqp091.Queue{}, fmt.Errorf("open a channel: %w", err)
	}
	defer func() { _ = ch.Close() }() // an error means that it is closed
	q, err := ch.QueueDeclarePassive(name, true, false, false, false, nil)
	if err != nil {
		return q, fmt.Errorf("look at %s: %w", name, err)
	}
	return q, nil
}

// notFound reports whether err is the broker's answer that a queue is missing, or that its node is away.
func notFound(err error) bool {
	refusal, ok := errors.AsType[*amqp091.Error](err)
	return ok && refusal.Code == amqp091.NotFound
}

// nodeAway reports whether err is the broker's answer that a queue's node is away.
func nodeAway(err error) bool {
	return notFound(err) && strings.Contains(err.Error(), "down or inaccessible")
}

// missing adds advice to the broker's answer that a queue does not exist.
func missing(err error) error {
	if notFound(err) && !nodeAway(err) {
		return fmt.Errorf("%w; in a cluster no part declares it: run `rideshare queues` once all nodes have joined", err)
	}
	return err
}

// found is the answer to a look.
type found struct {
	name  string
	state amqp091.Queue
	err   error
}

// lookAll looks at queues concurrently. Looks without an answer end with the session.
func (s *session) lookAll(queues []string) <-chan found {
	answers := make(chan found, len(queues))
	for _, name := range queues {
		go func() {
			q, err := s.look(name)
			answers <- found{name, q, err}
		}()
	}
	return answers
}

// readQueues returns the names of readQ at each node. A node that finds another node's readQ reaches that node.
func (n names) readQueues(c Config) []string {
	all := make([]string, len(c.nodes))
	for i, at := range c.nodes {
		all[i] = n.read + at.suffix
	}
	return all
}

// majority is more than half of the nodes.
func (c Config) majority() int { return len(c.nodes)/2 + 1 }

// member returns nil once the node has its own read queue and the queues that must exist, and finds the read queues of
// most nodes. A node that was paused may be cut off from the others, and accepts clients all the same.
func (s *session) member(n names, c Config, must []string) error {
	own := n.read + s.at.suffix
	stop := s.within(callTimeout, "look at "+own)
	_, err := s.look(own)
	stop()
	if err != nil {
		return missing(err)
	}
	timer := time.NewTimer(memberLimit)
	defer timer.Stop()
	others := slices.DeleteFunc(n.readQueues(c), func(name string) bool { return name == own })
	there, away, left := 1, 0, len(must)
	for reads, needed := s.lookAll(others), s.lookAll(must); there < c.majority() || left > 0; {
		select {
		case f := <-needed:
			if f.err != nil {
				return missing(f.err)
			}
			left--
		case f := <-reads:
			switch {
			case f.err == nil:
				there++
			case !notFound(f.err):
				return f.err
			default:
				if away++; away > len(c.nodes)-c.majority() {
					return fmt.Errorf("%w: %w", errCutOff, missing(f.err))
				}
			}
		case <-timer.C:
			if there < c.majority() {
				return fmt.Errorf("the node did not find the queues of most nodes within %v", memberLimit)
			}
			return nil // a quorum queue without a leader exists, and answers late
		}
	}
	return nil
}

// watchMember ends the session when its node is cut off: the partition may begin while the session is up, or be noticed
// by the node after the session was made.
func (s *session) watchMember(n names, c Config) {
	for s.waits(memberPeriod) {
		away := 0
		answers := s.lookAll(n.readQueues(c))
		for range c.nodes { // a look at a silent node takes until the cluster notices
			if f := <-answers; nodeAway(f.err) {
				away++
			}
		}
		if away > len(c.nodes)-c.majority() {
			s.kill(errCutOff)
		}
	}
}

// pulse ends the session when its node is silent, sooner than the heartbeats do: replies to a node that is paused are
// lost. A large delivery delays the answer, but not the bytes. A node that blocks publishers may not answer them.
func (s *session) pulse(n names, limit time.Duration) {
	var ch *amqp091.Channel
	for s.waits(pulsePeriod) {
		answered := make(chan struct{})
		go func() { // ends with the session at the latest
			defer close(answered)
			ch = s.ask(ch, n)
		}()
		s.listen(answered, limit)
	}
}

// ask waits for any answer of the node, over ch or, if that is closed, a new channel, which it returns. The node answers
// from what it knows itself.
func (s *session) ask(ch *amqp091.Channel, n names) *amqp091.Channel {
	if ch == nil || ch.IsClosed() {
		var err error
		if ch, err = s.conn.Channel(); err != nil {
			return nil
		}
	}
	_ = ch.ExchangeDeclarePassive(n.sync, amqp091.ExchangeFanout, true, false, false, false, nil) // any answer will do
	return ch
}

// listen returns when a question is answered. It ends the session if nothing comes for limit after the question.
func (s *session) listen(answered <-chan struct{}, limit time.Duration) {
	asked := time.Now()
	ticker := time.NewTicker(limit / 4)
	defer ticker.Stop()
	for {
		select {
		case <-answered:
			return
		case <-ticker.C:
			silent := min(time.Since(asked), time.Since(time.Unix(0, s.heard.Load())))
			if silent > limit && !s.blocked.Load() {
				s.kill(errSilent)
			}
		}
	}
}

// waits pauses for d. It reports false if the session ends first.
func (s *session) waits(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-s.done:
		return false
	}
}

// dialAny connects to the first node that answers.
func dialAny(ctx context.Context, c Config, name string) (*session, error) {
	var errs []error
	for _, at := range c.nodes {
		s, err := dialSession(ctx, c, at, name)
		if err == nil {
			return s, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}
