package control

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"rideshare/internal/coord"
)

// SetSlaves writes the wanted number of slaves to the coordinator, where it survives restarts.
func (l *Loop) SetSlaves(ctx context.Context, n int) error {
	session := l.currentSession()
	if session == nil {
		return coord.ErrUnavailable
	}
	_, version, err := session.SlaveCount(ctx)
	if err != nil && !errors.Is(err, coord.ErrNone) {
		return fmt.Errorf("read slave count: %w", err)
	}
	if err := session.SetSlaveCount(ctx, n, version); err != nil {
		return fmt.Errorf("set slave count to %d: %w", n, err)
	}
	l.Wake()
	return nil
}

// Value returns a value of the coordinator; see coord.Session. Nothing removes a value: if the coordinator lacks one that this
// orchestrator has seen, it has lost its data, and Value writes the value again.
func (l *Loop) Value(ctx context.Context, name string) ([]byte, coord.Version, error) {
	session := l.currentSession()
	if session == nil {
		return nil, 0, coord.ErrUnavailable
	}
	value, version, err := session.Value(ctx, name)
	if seen := l.seenValue(name); errors.Is(err, coord.ErrNone) && seen != nil {
		l.cfg.Log.WarnContext(ctx, "the coordinator has lost a value, it is written again", "value", name)
		if err = session.SetValue(ctx, name, seen, version); err == nil || errors.Is(err, coord.ErrVersion) { // another orchestrator may have been first
			value, version, err = session.Value(ctx, name)
		}
	}
	if err == nil {
		l.sawValue(name, value)
	}
	return value, version, err
}

// SetValue writes a value of the coordinator; see coord.Session.
func (l *Loop) SetValue(ctx context.Context, name string, value []byte, old coord.Version) error {
	session := l.currentSession()
	if session == nil {
		return coord.ErrUnavailable
	}
	err := session.SetValue(ctx, name, value, old)
	if err == nil {
		l.sawValue(name, value)
	}
	return err
}

func (l *Loop) seenValue(name string) []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.values[name]
}

func (l *Loop) sawValue(name string, value []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.values == nil {
		l.values = map[string][]byte{}
	}
	l.values[name] = bytes.Clone(value)
}
