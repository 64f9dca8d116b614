package sqlite

// Pace has pace called now and then inside long statements on c, on the goroutine that runs them, until
// Pace is called again; nil ends that. pace may wait: the statement waits with it, and is interrupted afterwards if it has to be.
func (c *Conn) Pace(pace func()) { c.pace = pace }
