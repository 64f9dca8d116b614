package control

import (
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

// Value returns a value of the coordinator; see coord.Session.
func (l *Loop) Value(ctx context.Context, name string) ([]byte, coord.Version, error) {
	session := l.currentSession()
	if session == nil {
		return nil, 0, coord.ErrUnavailable
	}
	return session.Value(ctx, name)
}

// SetValue writes a value of the coordinator; see coord.Session.
func (l *Loop) SetValue(ctx context.Context, name string, value []byte, old coord.Version) error {
	session := l.currentSession()
	if session == nil {
		return coord.ErrUnavailable
	}
	return session.SetValue(ctx, name, value, old)
}
