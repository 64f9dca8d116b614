package slave

import (
	"cmp"
	"context"
	"slices"
)

// maxAlone is how many reads whose worker has died run at once. Few: what they do to a worker is not known.
const maxAlone = 2

// runAlone runs the reads of a message that another worker had when it ended. One of them may be what
// it died of; so they run one after the other, and the caller hears of each before it runs. If this worker
// ends too, it is known which read ran: the caller does not send that one again, but the others.
//
// While the caller cannot hear of it, the message stays the broker's, and its next consumer begins again.
func (e *Executor) runAlone(ctx context.Context, m *message, places []int) {
	e.Stats.Alone.Add(1)
	slices.SortStableFunc(places, func(a, b int) int { return cmp.Compare(m.reads[a].MinSeq, m.reads[b].MinSeq) })
	if m.tellHeld(ctx, nil) { // at once: what waits here must not hold up the queue
		m.ack(ctx)
	}
	w := &work{m: m, places: places}
	for i, ok := w.claim(); ok && ctx.Err() == nil; i, ok = w.claim() {
		e.readAlone(ctx, w, i)
		m.flush(ctx)
	}
}

// readAlone answers one read, unless the worker ends before.
func (e *Executor) readAlone(ctx context.Context, w *work, i int) {
	read := &w.m.reads[i]
	waitCtx, cancel := context.WithDeadline(ctx, read.Deadline)
	defer cancel()
	for {
		if err := e.source.WaitApplied(waitCtx, w.m.position(i)); err != nil {
			if ctx.Err() == nil {
				w.m.add(i, notCaughtUp(), 0)
			}
			return
		}
		select {
		case e.alone <- struct{}{}:
		case <-waitCtx.Done():
			if ctx.Err() == nil {
				w.m.add(i, crowded(true), 0)
			}
			return
		}
		reader, err := w.m.reader()
		if err != nil {
			<-e.alone
			continue // the replica was thrown away just now
		}
		defer func() { <-e.alone }()
		defer reader.Close()
		w.m.tellHeld(ctx, &i)
		e.oneSlow(ctx, w, reader, i)
		return
	}
}
