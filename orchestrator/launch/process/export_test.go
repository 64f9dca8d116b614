package process

import (
	"io"
	"os"
	"time"
)

// NewPause is newPause.
var NewPause = newPause

// SetDrainLimit changes the drainLimit of a launcher's workers.
func (c *Config) SetDrainLimit(d time.Duration) { c.drainLimit = d }

// SetDrainLimit changes the drainLimit of a child.
func (c *ChildConfig) SetDrainLimit(d time.Duration) { c.drainLimit = d }

// PID returns the process id of the process that runs at the moment, or zero.
func (c *Child) PID() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.life.over() {
		return 0
	}
	return c.life.pid()
}

// Output copies from one output of a child to a writer. died tells it that the child is dead; ended is closed at its end.
func Output(to io.Writer) (theirs *os.File, died func(), ended <-chan struct{}, err error) {
	o, theirs, err := newOutlet(&lines{to: &sink{w: to}}, drainLimit)
	if err != nil {
		return nil, nil, nil, err
	}
	done := make(chan struct{})
	go func() { // ends with the output
		defer close(done)
		o.copy()
	}()
	return theirs, o.died, done, nil
}

// WriteLines writes all that one child wrote, and ends it.
func WriteLines(to io.Writer, all []string) {
	l := &lines{to: &sink{w: to}}
	for _, text := range all {
		_, _ = l.Write([]byte(text))
	}
	l.flush()
}
