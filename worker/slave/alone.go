package slave

import (
	"cmp"
	"context"
	"slices"

	"rideshare/internal/wait"
)

// maxAlone bounds how many reads whose worker has died run at the same time. It is small because such a read may have
// killed its worker.
const maxAlone = 2

// runAlone runs the reads of a message whose previous worker died. One of the reads may have killed that worker, so
// they run one after another, and the caller is notified of each before it runs. If this worker dies too, the caller
// knows which read was running: it resends the others, but not that read.
//
// If the caller cannot be notified, the message stays unacknowledged, and its next consumer starts again.
func (e *Executor) runAlone(ctx context.Context, m *message, indexes []int) {
	e.Stats.Alone.Add(1)
	slices.SortStableFunc(indexes, func(a, b int) int { return cmp.Compare(m.reads[a].MinSeq, m.reads[b].MinSeq) })
	if m.announceHeld(ctx, nil) { // before the reads run: reads that wait here must not block the queue
		m.ack(ctx)
	}
	w := &work{m: m, indexes: indexes}
	for i, ok := w.claim(); ok && ctx.Err() == nil; i, ok = w.claim() {
		e.readAlone(ctx, w, i)
		m.flush(ctx)
	}
}

// readAlone answers read i of w's message, unless the worker ends first.
func (e *Executor) readAlone(ctx context.Context, w *work, i int) {
	read := &w.m.reads[i]
	waitCtx, cancel := context.WithDeadline(ctx, read.Deadline)
	defer cancel()
	for {
		if err := e.source.WaitApplied(waitCtx, w.m.position(i)); err != nil || waitCtx.Err() != nil {
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
			wait.For(waitCtx, reopenPause)
			continue
		}
		defer func() { <-e.alone }()
		defer reader.Close()
		w.m.announceHeld(ctx, &i)
		e.oneSlow(ctx, w, reader, i, false)
		return
	}
}
