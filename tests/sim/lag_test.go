package sim_test

import (
	"math/rand/v2"
	"sync"
	"time"
)

const (
	// messageLag is the longest delay of a message between the bus and a worker.
	messageLag = 2 * time.Millisecond
	// entryLag is the longest time from a broadcast until a slow replica applies the entry: long enough that clients learn
	// of the write and read it elsewhere.
	entryLag = 400 * time.Millisecond
)

// lag delays the messages to and from one worker, each by a random time.
type lag struct {
	mu  sync.Mutex // guards rnd
	rnd *rand.Rand
}

// message waits for the delay of a request or an answer.
func (l *lag) message() { l.sleep(messageLag) }

// entry waits for the delay of an entry. One of four entries is delayed for long, and so are the entries behind it.
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
