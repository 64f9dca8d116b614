package mq

// Waiting returns the number of calls in flight.
func (c *Caller) Waiting() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.waiting)
}
