package wait

import "sync"

// Token is a wake-up for one goroutine. However often it is given, one receive takes it.
type Token chan struct{}

// NewToken returns a Token that is not given.
func NewToken() Token { return make(Token, 1) }

// Give makes the next receive from t return. It never blocks.
func (t Token) Give() {
	select {
	case t <- struct{}{}:
	default: // it is given already
	}
}

// Signal wakes all goroutines that wait for it. The zero value is ready to use, by any number of goroutines.
type Signal struct {
	mu   sync.Mutex
	next chan struct{} // nil if Next has not been called since the last Notify
}

// Next returns a channel that the next Notify closes. A goroutine that waits for a condition takes the channel before it
// looks at the condition.
func (s *Signal) Next() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next == nil {
		s.next = make(chan struct{})
	}
	return s.next
}

// Notify closes the channels that Next has returned so far.
func (s *Signal) Notify() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next != nil {
		close(s.next)
		s.next = nil
	}
}
