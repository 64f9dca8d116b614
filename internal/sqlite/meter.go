package sqlite

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"rideshare/internal/dbaas"
)

// meter counts the memory that the client statement of one connection holds. It stops the statement if that is too much
// or its time is over. The engine calls the meter at every allocation, so the meter can stop a statement even inside
// one step of the engine, and during preparation. Only the goroutine that uses the connection may use the fields that
// are not atomic.
type meter struct {
	c         *Conn
	id        int32 // number of the connection's libc thread
	running   bool  // the engine is working on the client's statement
	preparing bool
	most      int64 // bytes that a statement may hold
	used      int64 // bytes since the statement began
	high      int64 // the largest used since the connection was opened
	next      int64 // above this many bytes the meter checks all limits
	calls     uint64
	stop      reason

	statement       atomic.Uint64 // number of the current statement on this connection
	markedStatement atomic.Uint64 // number of the statement that must end, because all statements together hold too much
	published       atomic.Int64  // the part of used that the other meters have counted
	watched         watched
}

// reason says why a statement was stopped.
type reason uint8

const (
	goOn reason = iota
	tooLarge
	tooLong
	crowdedOut // all statements together hold too much, and this one holds the most
)

const (
	// publishBytes is the amount by which used may differ from published.
	publishBytes = 256 << 10
	// lookEvery is how many allocations pass between two checks of the clock, some 50 microseconds.
	lookEvery = 256
	// A stopped statement may still allocate pieces of up to smallBytes, reserveBytes in all: undoing its changes needs
	// some memory.
	smallBytes   = 64 << 10
	reserveBytes = 1 << 20
)

// held is the sum of published over all connections.
var held atomic.Int64

// begin starts counting for a new statement.
func (m *meter) begin() {
	m.leave() // a panic may have left the last statement running
	m.end()
	m.used = 0
	m.statement.Add(1)
}

// enter marks that the engine starts to work on the client's statement; leave marks that it has stopped.
func (m *meter) enter(preparing bool) {
	m.running, m.preparing = true, preparing
	m.next = min(m.most, m.published.Load()+publishBytes)
}

func (m *meter) leave() { m.running, m.preparing = false, false }

// end subtracts the statement's share from held, and ends its watch if it has not ended. The caller has made the
// statement's error: why it was stopped must not become the error of a later COMMIT.
func (m *meter) end() {
	m.stop = goOn
	if n := m.published.Load(); n != 0 {
		m.published.Store(0)
		held.Add(-n)
	}
	m.watched.end()
}

// take counts n more bytes. It returns false if the statement may not allocate them; then they are not counted.
func (m *meter) take(n int64) bool {
	m.used += n
	m.calls++
	if m.used <= m.next && n < publishBytes && m.calls%lookEvery != 0 {
		return true
	}
	return m.look(n)
}

func (m *meter) give(n int64) {
	m.used -= n
	if n >= publishBytes && m.running {
		m.publish()
	}
}

// look checks the limits for n bytes that m.used already includes. If it returns false, it has subtracted them again.
func (m *meter) look(n int64) bool {
	if !m.running {
		m.next = math.MaxInt64
		return true
	}
	m.check()
	if m.stop == goOn {
		m.publish()
		m.check()
	}
	if m.stop == goOn || n <= 0 {
		return true
	}
	if !m.preparing && n <= smallBytes && m.used <= m.most+reserveBytes {
		return true
	}
	m.used -= n
	m.high = max(m.high, m.used)
	return false
}

// check sets m.stop if the statement must end.
func (m *meter) check() {
	switch {
	case m.stop != goOn:
	case m.used > m.most:
		m.endWith(tooLarge)
	case m.mustEnd():
		m.endWith(crowdedOut)
	case m.c.over():
		m.endWith(tooLong)
	default:
		m.high = max(m.high, m.used)
		m.next = min(m.most, m.used+publishBytes)
	}
}

func (m *meter) endWith(why reason) { m.stop, m.next = why, math.MinInt64 }

func (m *meter) mustEnd() bool { return m.markedStatement.Load() == m.statement.Load() }

// hold counts n bytes of results, which the engine does not allocate.
func (m *meter) hold(n int) error {
	m.used += int64(n)
	if m.used > m.next {
		m.publish()
		m.check()
		if m.stop == tooLarge || m.stop == crowdedOut {
			return m.err()
		}
	}
	return nil
}

// publish makes this meter's count visible to the others. If the sum exceeds MemoryAll, it marks statements to end.
func (m *meter) publish() {
	n := max(m.used, 0)
	sum := held.Add(n - m.published.Swap(n))
	if limit := m.c.limits.MemoryAll; sum > limit {
		endLargest(limit)
	}
}

var endingLargest sync.Mutex

// endLargest marks statements of the process to end, the largest first, until the others hold at most limit bytes.
func endLargest(limit int64) {
	endingLargest.Lock()
	defer endingLargest.Unlock()
	for {
		var sum, most int64
		var number uint64
		var largest *meter
		for i := range meters {
			m := meters[i].Load()
			if m == nil || m.mustEnd() {
				continue
			}
			statement, n := m.statement.Load(), m.published.Load()
			sum += n
			if n > most {
				largest, most, number = m, n, statement
			}
		}
		if largest == nil || sum <= limit {
			return
		}
		largest.markedStatement.Store(number)
	}
}

// err returns the error of a statement that this meter has stopped.
func (m *meter) err() *dbaas.Error {
	limits := &m.c.limits
	switch m.stop { //nolint:exhaustive // it is called for a statement that was stopped, and otherwise that is too large.
	case tooLong:
		return errTooLong
	case crowdedOut:
		return dbaas.Errorf(dbaas.CodeUnavailable, "all statements together need more than %d MiB at the moment; try again", mebibytes(limits.MemoryAll))
	default:
		return dbaas.Errorf(dbaas.CodeTooLarge, "the statement needs more than %d MiB", mebibytes(limits.Memory))
	}
}

func mebibytes(n int64) int64 { return (n + 1<<20 - 1) >> 20 }

// over reports whether the running call has exceeded its time.
func (c *Conn) over() bool {
	return c.Interrupted() || !c.deadline.IsZero() && time.Now().After(c.deadline)
}
