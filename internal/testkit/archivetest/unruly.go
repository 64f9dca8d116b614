package archivetest

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"rideshare/persdb/archive/place"
)

// ErrAway is the error of an Unruly place that is away.
var ErrAway = errors.New("the place is away")

// Unruly is a place that misbehaves as its fields say. Set changes them while it is used.
type Unruly struct {
	place.Place

	mu sync.Mutex // guards what follows
	Behaviour
}

// Behaviour is how an Unruly place misbehaves; the zero value does not.
type Behaviour struct {
	// Away makes every call fail.
	Away bool
	// Slow delays each call.
	Slow time.Duration
	// Hangs makes each call last until its context ends.
	Hangs bool
	// Stuck, if not nil, makes each call last until it is closed, whatever becomes of the call's context.
	Stuck chan struct{}
	// Cut, if not 0, is the number of bytes after which the body of each object that is stored ends with an error.
	Cut int
	// DiesAt is the number of the change (store, replace, remove) at which the caller dies, counted from 1. From then on
	// every call fails. The change itself is done only if DiesAfter is set.
	DiesAt    int
	DiesAfter bool
	changes   int
}

// Set replaces the behaviour. A caller that died is alive again.
func (u *Unruly) Set(b Behaviour) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.Behaviour = b
}

// Changes returns how many changes were begun since Set.
func (u *Unruly) Changes() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.changes
}

// before applies the behaviour before a call. If after is not nil, the call must be done and then return after.
func (u *Unruly) before(ctx context.Context, change bool) (b Behaviour, after, err error) {
	u.mu.Lock()
	if change {
		u.changes++
	}
	b = u.Behaviour
	u.mu.Unlock()
	if b.DiesAt > 0 && b.changes >= b.DiesAt {
		if !change || b.changes > b.DiesAt || !b.DiesAfter {
			return b, nil, ErrAway
		}
		after = ErrAway
	}
	if b.Stuck != nil {
		<-b.Stuck
	}
	if b.Hangs {
		<-ctx.Done()
		return b, nil, context.Cause(ctx)
	}
	if b.Slow > 0 {
		select {
		case <-time.After(b.Slow):
		case <-ctx.Done():
			return b, nil, context.Cause(ctx)
		}
	}
	if b.Away {
		return b, nil, ErrAway
	}
	return b, after, nil
}

func (u *Unruly) store(ctx context.Context, body io.Reader, store func(io.Reader) error) error {
	b, after, err := u.before(ctx, true)
	if err != nil {
		return err
	}
	if b.Cut > 0 {
		body = io.MultiReader(io.LimitReader(body, int64(b.Cut)), away{})
	}
	return errors.Join(store(body), after)
}

// away is a body that fails.
type away struct{}

func (away) Read([]byte) (int, error) { return 0, ErrAway }

// Create implements place.Place.
func (u *Unruly) Create(ctx context.Context, name string, body io.Reader) error {
	return u.store(ctx, body, func(body io.Reader) error { return u.Place.Create(ctx, name, body) })
}

// Replace implements place.Place.
func (u *Unruly) Replace(ctx context.Context, name string, body io.Reader) error {
	return u.store(ctx, body, func(body io.Reader) error { return u.Place.Replace(ctx, name, body) })
}

// Open implements place.Place.
func (u *Unruly) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	if _, _, err := u.before(ctx, false); err != nil {
		return nil, err
	}
	return u.Place.Open(ctx, name)
}

// List implements place.Place.
func (u *Unruly) List(ctx context.Context, prefix string) ([]place.Object, error) {
	if _, _, err := u.before(ctx, false); err != nil {
		return nil, err
	}
	return u.Place.List(ctx, prefix)
}

// Remove implements place.Place.
func (u *Unruly) Remove(ctx context.Context, name string) error {
	_, after, err := u.before(ctx, true)
	if err != nil {
		return err
	}
	return errors.Join(u.Place.Remove(ctx, name), after)
}
