package sqlite

// Pace makes long statements on c call pace repeatedly, on the goroutine that runs them, until Pace is called again;
// nil turns that off. pace may block: the statement waits for it and checks for interruption afterwards.
func (c *Conn) Pace(pace func()) { c.pace = pace }
