package pglog

import "time"

// WithHold sets how long a log that was taken over from does not take over in turn.
func (c Config) WithHold(d time.Duration) Config {
	c.hold = d
	return c
}

// A busy machine stands still for seconds: slow is how long statements and connections may take in a test that waits for
// that time, and patient in all others.
const slow, patient = 5 * time.Second, time.Minute

// Patient lets statements and connections take long.
func (c Config) Patient() Config {
	c.least, c.connect = patient, patient
	return c
}

// Slow is Patient for tests that wait until a statement has taken too long. A server then counts as silent until the end of
// the test.
func (c Config) Slow() Config {
	c.least, c.connect, c.silence = slow, slow, time.Hour
	return c
}

// BeSlow makes an open log the same as if it had been opened with Slow. Until then it can be Patient.
func (l *Log) BeSlow() {
	l.turn <- struct{}{}
	defer l.give()
	for _, s := range l.servers {
		s.limit, s.least, s.silence, s.silent = slow, slow, time.Hour, time.Time{}
	}
	l.session.least = slow
}

// WasSilent reports whether the log has found its first server silent.
func (l *Log) WasSilent() bool {
	l.turn <- struct{}{}
	defer l.give()
	return !l.servers[0].silent.IsZero()
}
