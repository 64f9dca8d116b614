package slave

import (
	"context"
	"hash/maphash"
	"sync"

	"rideshare/internal/dbaas"
)

// runSlow runs a read that is known to be slow once a slow slot is free. It holds no resources while it waits. The
// number of waiting messages is bounded, and the read's own deadline ends the wait. again means that the read ran
// before.
func (e *Executor) runSlow(ctx context.Context, w *work, i int, again bool) {
	m := w.m
	m.earlyAck(ctx, e.earlyAcked)
	defer m.flush(ctx)
	waitCtx, cancel := context.WithDeadline(m.work, m.reads[i].Deadline)
	defer cancel()
	select {
	case e.slow <- struct{}{}:
	case <-waitCtx.Done():
		if ctx.Err() == nil {
			m.add(i, crowded(m.work.Err() == nil), 0)
		}
		return
	}
	reader, err := m.reader()
	if err != nil {
		<-e.slow
		e.awaitAgain(ctx, m, []int{i})
		return
	}
	defer func() { <-e.slow }()
	defer reader.Close()
	e.oneSlow(ctx, w, reader, i, again)
}

// oneSlow answers one read that takes turns with other slow reads from its start. again means that the read ran before.
func (e *Executor) oneSlow(ctx context.Context, w *work, reader Reader, i int, again bool) {
	r := &run{exec: e, work: w, ctx: w.m.work, again: again}
	r.turn.turns = e.turns
	r.turn.slow.Store(true)
	reader.Pace(func() { r.turn.pace(r.ctx) })
	defer r.turn.end()
	r.one(ctx, reader, i)
}

// expectsSlot reports whether a read should wait for a slow slot without being tried first: all slow slots are taken, and
// its statements were slow before. To try it would only waste the time until it is cancelled.
func (e *Executor) expectsSlot(read *dbaas.Read) bool {
	return len(e.slow) == cap(e.slow) && e.slowReads.has(read)
}

const (
	// slowCalls is how often a slow read must have called pace to be remembered: about 50 us of work. A read with fewer
	// calls was slow only because this process got no core.
	slowCalls = 16
	// maxSlowReads bounds the remembered reads. When it is reached, a new read replaces any other.
	maxSlowReads = 1024
)

// slowReads remembers reads that were slow, by the text of their statements. It is safe for concurrent use.
type slowReads struct {
	seed maphash.Seed

	mu   sync.Mutex // guards the field below
	keys map[uint64]struct{}
}

func newSlowReads() slowReads {
	return slowReads{seed: maphash.MakeSeed(), keys: map[uint64]struct{}{}}
}

func (s *slowReads) key(read *dbaas.Read) uint64 {
	var key uint64
	for i := range read.Statements {
		key = key*31 + maphash.String(s.seed, read.Statements[i].SQL)
	}
	return key
}

func (s *slowReads) has(read *dbaas.Read) bool {
	key := s.key(read)
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.keys[key]
	return ok
}

// learn remembers a read that was slow, and forgets one that was not.
func (s *slowReads) learn(read *dbaas.Read, slow bool) {
	key := s.key(read)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slow {
		delete(s.keys, key)
		return
	}
	if len(s.keys) >= maxSlowReads {
		for other := range s.keys {
			delete(s.keys, other)
			break
		}
	}
	s.keys[key] = struct{}{}
}
