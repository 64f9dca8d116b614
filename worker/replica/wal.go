package replica

import (
	"os"
	"time"
)

const (
	// maxWAL is the size of the WAL over which readers that keep it from being emptied are ended: a container's replica
	// lies in a file system of 256 MiB, and what applying writes goes to the WAL first.
	maxWAL = 32 << 20
	// walStep is how much it grows before the next try, if one was in vain.
	walStep = 4 << 20
	// readerGrace is how long a reader is safe, and hardGrace beyond twice maxWAL. Point reads are over by then.
	readerGrace = time.Second
	hardGrace   = 100 * time.Millisecond
	// walWait is how long applying waits for readers who were ended.
	walWait = 100 * time.Millisecond
)

// enter notes a reader that has fixed what it sees.
func (f *file) enter(rd *Reader) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reading[rd] = time.Now()
}

// exit forgets it. From then on nobody ends what runs on its connection.
func (f *file) exit(rd *Reader) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.reading, rd)
	if rd.ended.Load() {
		rd.conn.Resume()
	}
}

// relieve empties a WAL that has grown long, and ends the readers who have kept it from that for longest. It returns how many
// it ended. It belongs to the goroutine that applies, and is called between transactions.
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

// end ends the readers that have been there for longer than grace.
func (f *file) end(grace time.Duration) (ended int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for rd, since := range f.reading {
		if time.Since(since) > grace && !rd.ended.Swap(true) {
			rd.conn.Stop()
			ended++
		}
	}
	return ended
}
