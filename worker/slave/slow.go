package slave

import "context"

// runSlow runs a read that is known to be slow once a slow slot is free. It holds no resources while it waits. The
// number of waiting messages is bounded, and the read's own deadline ends the wait.
func (e *Executor) runSlow(ctx context.Context, w *work, i int) {
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
	e.oneSlow(ctx, w, reader, i, true)
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
