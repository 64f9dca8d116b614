package mq

// Waiting returns how many calls c remembers.
func (c *Caller) Waiting() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.waiting)
}
