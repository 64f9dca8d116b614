package replica

import (
	"os"
	"time"
)

const (
	// maxWAL is the size of the WAL above which readers that keep it from being emptied are stopped: a container's
	// replica is in a file system of 256 MiB, and applied entries are written to the WAL first.
	maxWAL = 32 << 20
	// walStep is how much the WAL grows before the next attempt after a failed one.
	walStep = 4 << 20
	// readerGrace is the age below which a reader is never stopped. If the WAL exceeds twice maxWAL, hardGrace applies
	// instead. A slave begins no fast read on a reader that is older than half of hardGrace.
	readerGrace = time.Second
	hardGrace   = 100 * time.Millisecond
	// walWait is how long applying waits for readers that were stopped.
	walWait = 100 * time.Millisecond
)

// enter records a reader that has begun its transaction.
func (f *file) enter(rd *Reader) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reading[rd] = time.Now()
}

// exit removes a reader. Afterwards relieve no longer stops its connection.
func (f *file) exit(rd *Reader) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.reading, rd)
	if rd.ended.Load() {
		rd.conn.Resume()
	}
}

// relieve empties a long WAL. If open readers prevent that, it stops those that are older than the grace period and
// tries again. It returns how many readers it stopped. It belongs to the goroutine that applies entries, and is called
// between transactions.
func (f *file) relieve() (ended int, err error) {
	info, err := os.Stat(f.path + "-wal")
	if err != nil || info.Size() <= f.crowded {
		return 0, err
	}
	done, err := f.writer.Checkpoint(0)
	if err == nil && !done {
		grace := readerGrace
		if info.Size() > 2*maxWAL {
			grace = hardGrace
		}
		ended = f.end(grace)
		done, err = f.writer.Checkpoint(walWait)
	}
	f.crowded = maxWAL
	if !done {
		f.crowded = info.Size() + walStep
	}
	return ended, err
}

// end stops the readers that have been open for longer than grace.
func (f *file) end(grace time.Duration) (ended int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for rd, since := range f.reading {
		if time.Since(since) > grace && !rd.ended.Swap(true) {
			rd.conn.Stop()
			if rd.onEnd != nil {
				rd.onEnd()
			}
			ended++
		}
	}
	return ended
}

// whenEnded makes end call do when it stops rd, for a reader that waits for something other than its connection.
func (f *file) whenEnded(rd *Reader, do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	rd.onEnd = do
	if rd.ended.Load() {
		do()
	}
}
