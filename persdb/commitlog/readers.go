package commitlog

import (
	"context"
	"errors"

	"rideshare/internal/dbaas"
	"rideshare/internal/sqlite"
)

// Readers is a pool of read-only connections to one file. Each Use sees one state, fixed by its first read.
type Readers struct {
	all    []*sqlite.Conn
	free   chan *sqlite.Conn
	closed chan struct{}
}

// OpenReaders opens n read-only connections to the file at path.
func OpenReaders(path string, n int) (*Readers, error) {
	r := &Readers{free: make(chan *sqlite.Conn, n), closed: make(chan struct{})}
	for range n {
		c, err := sqlite.Open(path, sqlite.Options{ReadOnly: true})
		if err != nil {
			return nil, errors.Join(err, r.Close())
		}
		r.all = append(r.all, c)
		r.free <- c
	}
	return r, nil
}

// Use runs fn with a connection inside a read transaction. It waits for a free connection until ctx ends; the end of
// ctx also interrupts the statements of fn. After Close, Use returns CodeUnavailable.
func (r *Readers) Use(ctx context.Context, fn func(*sqlite.Conn) error) error {
	var c *sqlite.Conn
	select {
	case c = <-r.free:
	case <-r.closed:
		return dbaas.Errorf(dbaas.CodeUnavailable, "the database is closed")
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { r.free <- c }()
	return c.Within(ctx, func() error {
		if err := c.Begin(); err != nil {
			return err
		}
		return errors.Join(fn(c), c.End())
	})
}

// Close interrupts the statements of running Uses, waits for these Uses, and closes the connections. It is called once.
func (r *Readers) Close() error {
	close(r.closed)
	for _, c := range r.all {
		c.Stop()
	}
	var errs []error
	for range r.all {
		errs = append(errs, (<-r.free).Close())
	}
	return errors.Join(errs...)
}
