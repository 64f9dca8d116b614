package changes

import (
	"sync"

	"rideshare/internal/dbaas"
	"rideshare/internal/rowlog"
	"rideshare/internal/wait"
)

// window holds the latest commits for all streams at the head: those in (from, to], without a gap, and at most
// pageBytes of them. life changes each time the window restarts at another position.
type window struct {
	mu       sync.Mutex // guards the fields below, except more
	streams  int        // open streams
	running  bool
	life     uint64
	cluster  dbaas.ClusterID
	from, to dbaas.Seq
	events   []*rowlog.Event
	bytes    int

	more wait.Signal // the window has more commits, has streams to serve, or has restarted
}

// place is the end of the window during one of its lives.
type place struct {
	wanted  bool // there are streams
	life    uint64
	cluster dbaas.ClusterID
	at      dbaas.Seq
}

// place returns where the window ends, and a channel that is closed when that may have changed.
func (w *window) place() (place, <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return place{wanted: w.running, life: w.life, cluster: w.cluster, at: w.to}, w.more.Next()
}

// opened counts a stream. The caller must call closed when the stream ends. When the last stream ends, the window is
// dropped.
func (w *window) opened() (closed func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.streams++
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.streams--; w.streams == 0 {
			w.running, w.events, w.bytes = false, nil, 0
		}
	}
}

// join returns the current life, for a stream that has read a cluster's log up to its head, at position at. If the
// window does not follow that log, it restarts at that position.
func (w *window) join(cluster dbaas.ClusterID, at dbaas.Seq) (life uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.running || w.cluster != cluster {
		w.restart(cluster, at)
	}
	return w.life
}

// restart begins a new life at a position. The caller holds mu.
func (w *window) restart(cluster dbaas.ClusterID, at dbaas.Seq) {
	w.life++
	w.running, w.cluster, w.from, w.to, w.events, w.bytes = true, cluster, at, at, nil, 0
	w.more.Notify()
}

// begin begins a new life at another position, unless p's life is over.
func (w *window) begin(p place, cluster dbaas.ClusterID, at dbaas.Seq) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.running && w.life == p.life {
		w.restart(cluster, at)
	}
}

// add adds the next commit, unless p's life is over. The caller notifies more.
func (w *window) add(p place, e *rowlog.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.running || w.life != p.life || e.Seq != w.to+1 {
		return
	}
	w.to, w.bytes, w.events = e.Seq, w.bytes+e.Size(), append(w.events, e)
	for w.bytes > pageBytes {
		w.bytes -= w.events[0].Size()
		w.events[0] = nil
		w.events, w.from = w.events[1:], w.from+1
	}
}

// after returns the commits after at. behind means that the stream must read the log: the window no longer has these
// commits, or has restarted since the stream joined it. more is closed when there may be other commits.
func (w *window) after(life uint64, at dbaas.Seq) (events []*rowlog.Event, behind bool, more <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	more = w.more.Next()
	if !w.running || life != w.life || at < w.from {
		return nil, true, more
	}
	if at < w.to {
		events = append(events, w.events[at-w.from:]...)
	}
	return events, false, more
}
