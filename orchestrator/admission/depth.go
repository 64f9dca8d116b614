package admission

import "time"

// DepthRule is the settings of the stage that watches the depth of the write queue, in operations.
type DepthRule struct {
	// Above a depth of Wait an operation waits. Above a depth of Open the breaker opens.
	Wait, Open int
}

const (
	// depthPeriod is how often the depth is sampled.
	depthPeriod = 100 * time.Millisecond
	// depthKept is how long the last successful sample counts while sampling fails.
	depthKept = time.Second
	// depthOpen is for how long a sample above DepthRule.Open opens the breaker.
	depthOpen = 2 * time.Second
	// A waiting operation checks the depth again after 1, 2, ... depthLooks times depthPause.
	depthLooks = 5
	depthPause = 100 * time.Millisecond
	// meanMessages is over how many of the last messages the mean number of operations is taken.
	meanMessages = 100
)

// Depth is the last known depth of the write queue. The zero value is a depth of 0 that counts only until a sample
// fails.
type Depth struct {
	Operations int
	at         time.Time
}

// Sampled returns the depth after a sample at now. After a failed sample the last value stays for up to depthKept. Then
// the depth counts as Wait + 1, so that operations wait.
func (r DepthRule) Sampled(d Depth, operations int, ok bool, now time.Time) Depth {
	switch {
	case ok:
		return Depth{Operations: operations, at: now}
	case now.Sub(d.at) >= depthKept:
		d.Operations = r.Wait + 1
	}
	return d
}

// Judge returns the depth breaker after a sample at now. A sample above Open opens the breaker for 2 s. The first
// sample after those 2 s opens it again if it is still above Open, else makes it half-open.
func (r DepthRule) Judge(b Breaker, d Depth, now time.Time) Breaker {
	over := d.Operations > r.Open
	switch {
	case b.State == Open && now.Before(b.Until):
		return b
	case over:
		return b.open(depthOpen, now, "the write queue is too long")
	case b.State == Open:
		return b.halfOpen()
	}
	return b
}

// depthOf estimates the depth in operations. own is how many operations of this orchestrator have not ended, in
// ownMessages unanswered messages; ready is how many messages of all orchestrators wait at the broker; mean is the mean
// number of operations in a message.
func depthOf(own, ownMessages, ready int, mean float64) int {
	return own + int(float64(max(0, ready-ownMessages))*mean)
}

// means computes the mean number of operations in the last meanMessages messages.
type means struct {
	last [meanMessages]int
	n    int // messages so far
	sum  int
}

func (m *means) add(operations int) {
	at := m.n % meanMessages
	m.sum += operations - m.last[at]
	m.last[at] = operations
	m.n++
}

// mean returns 1 before the first message.
func (m *means) mean() float64 {
	if m.n == 0 {
		return 1
	}
	return float64(m.sum) / float64(min(m.n, meanMessages))
}
