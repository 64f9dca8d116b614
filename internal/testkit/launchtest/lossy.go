package launchtest

import (
	"context"
	"fmt"
	"sync"

	"rideshare/orchestrator/launch"
)

// Lossy is a Launcher whose engine does not always answer. It is safe for concurrent use.
type Lossy struct {
	launch.Launcher

	mu       sync.Mutex // guards the fields below
	answers  int
	requests int
}

// NewLossy returns a Lossy around l that loses nothing yet.
func NewLossy(l launch.Launcher) *Lossy { return &Lossy{Launcher: l} }

// LoseAnswers makes the next n calls of Start take effect but return launch.ErrUnavailable.
func (l *Lossy) LoseAnswers(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answers = n
}

// LoseRequests makes the next n calls of Start return launch.ErrUnavailable without any effect.
func (l *Lossy) LoseRequests(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.requests = n
}

// Start implements launch.Launcher.
func (l *Lossy) Start(ctx context.Context, startID string) (launch.Instance, error) {
	if l.take(&l.requests) {
		return launch.Instance{}, fmt.Errorf("request lost: %w", launch.ErrUnavailable)
	}
	i, err := l.Launcher.Start(ctx, startID)
	if err == nil && l.take(&l.answers) {
		return launch.Instance{}, fmt.Errorf("answer lost: %w", launch.ErrUnavailable)
	}
	return i, err
}

// take uses up one of the remaining losses, and reports whether there was one.
func (l *Lossy) take(left *int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if *left == 0 {
		return false
	}
	*left--
	return true
}
