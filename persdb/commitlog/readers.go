package commitlog

import (
	"context"
	"errors"

	"rideshare/internal/sqlite"
)

// Readers is a pool of read-only connections to the file. Each Use sees one state, fixed by its first read.
type Readers struct {
	free chan *sqlite.Conn
}

// OpenReaders opens n read-only connections to the file at path.
func OpenReaders(path string, n int) (*Readers, error) {
	r := &Readers{free: make(chan *sqlite.Conn, n)}
	for range n {
		c, err := sqlite.Open(path, sqlite.Options{ReadOnly: true})
		if err != nil {
			return nil, errors.Join(err, r.Close())
		}
		r.free <- c
	}
	return r, nil
}

// Use runs fn with a connection inside a read transaction. It waits for a free connection until ctx ends; the end of
// ctx also interrupts the statements of fn.
func (r *Readers) Use(ctx context.Context, fn func(*sqlite.Conn) error) error {
	var c *sqlite.Conn
	select {
	case c = <-r.free:
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

// Close waits until all connections are free and closes them. Use must not be called afterwards.
func (r *Readers) Close() error {
	var errs []error
	for range len(r.free) {
		errs = append(errs, (<-r.free).Close())
	}
	return errors.Join(errs...)
}
