package process

import "io"

// NewPause is newPause.
var NewPause = newPause

// PID returns the process id of the process that runs at the moment, or zero.
func (c *Child) PID() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.life.over() {
		return 0
	}
	return c.life.pid()
}

// WriteLines writes all that one child wrote, and ends it.
func WriteLines(to io.Writer, all []string) {
	l := &lines{to: &sink{w: to}}
	for _, text := range all {
		_, _ = l.Write([]byte(text))
	}
	l.flush()
}
