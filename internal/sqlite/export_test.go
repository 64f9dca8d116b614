package sqlite

// Kept returns how many client statements c keeps.
func Kept(c *Conn) int { return len(c.guarded) }
