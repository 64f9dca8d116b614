package sim_test

import (
	"math/rand/v2"
	"sync"
	"time"
)

const (
	// messageLag is the longest way of a message between the bus and a worker.
	messageLag = 2 * time.Millisecond
	// entryLag is the longest time from a broadcast until a slow replica applies the entry: long enough
	// for others to be told of the write, and to read elsewhere.
	entryLag = 400 * time.Millisecond
)

// lag is how late one worker gets what is sent, drawn for each message.
type lag struct {
	mu  sync.Mutex // guards rnd
	rnd *rand.Rand
}

// message is the way of a request or an answer.
func (l *lag) message() { l.sleep(messageLag) }

// entry is the way of an entry to the replica: most come at once, one of four has to wait, and what is
// behind it as well.
func (l *lag) entry() {
	l.mu.Lock()
	slow := l.rnd.IntN(4) == 0
	l.mu.Unlock()
	if slow {
		l.sleep(entryLag)
	} else {
		l.sleep(messageLag)
	}
}

func (l *lag) sleep(most time.Duration) {
	l.mu.Lock()
	d := time.Duration(l.rnd.Int64N(int64(most)))
	l.mu.Unlock()
	time.Sleep(d)
}
