package replica

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/replication"
	"rideshare/internal/sqlite"
)

// maxIdle bounds the idle connections of readers; each has a page cache. More connections are in use only while slow
// reads run.
const maxIdle = 8

// file is one generation of the replica: a snapshot and the entries applied to it. writer and head belong to the
// goroutine of Run.
type file struct {
	path    string
	cluster dbaas.ClusterID // the snapshot's cluster
	writer  *sqlite.Conn
	applier *replication.Applier // on writer
	head    dbaas.Head

	crowded int64 // the size of the WAL at which relieve tries again

	limits  sqlite.Limits // of clients' statements
	onStuck func(sql string)

	mu      sync.Mutex // guards the fields below
	idle    []*sqlite.Conn
	reading map[*Reader]time.Time // open readers, with the time at which each began
	retired bool
}

// apply applies consecutive entries, starting after head, in one transaction. After an error the file must be
// discarded.
func (f *file) apply(entries []dbaas.Entry) error {
	if err := f.writer.BeginWrite(); err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	for _, e := range entries {
		if err := f.applier.Apply(e); err != nil {
			return fmt.Errorf("apply after %d: %w", f.head.Seq, err)
		}
	}
	if err := f.writer.Commit(); err != nil {
		return fmt.Errorf("commit after %d: %w", f.head.Seq, err)
	}
	last := entries[len(entries)-1]
	f.head = dbaas.Head{Cluster: f.cluster, Seq: last.Seq, Epoch: last.Epoch}
	return nil
}

// rollback undoes an unfinished apply, so that the file is at head again. It reports whether it succeeded.
func (f *file) rollback() bool { return f.writer.End() == nil }

// acquire returns a connection for reading; the caller returns it with release.
func (f *file) acquire() (*sqlite.Conn, error) {
	f.mu.Lock()
	if n := len(f.idle); n > 0 && !f.retired {
		c := f.idle[n-1] // the connection used last has the warmest cache
		f.idle = f.idle[:n-1]
		f.mu.Unlock()
		return c, nil
	}
	f.mu.Unlock()
	// The connection never writes. Foreign keys and triggers are on so that PRAGMA and EXPLAIN answer as at persdb.
	return f.open(sqlite.Options{ReadOnly: true, ForeignKeys: true, Triggers: true})
}

// scan returns a connection for reading the whole file. The caller closes it afterwards, so that the worker does not
// keep the whole file in memory.
func (f *file) scan() (*sqlite.Conn, error) {
	return f.open(sqlite.Options{ReadOnly: true, Scan: true})
}

func (f *file) open(o sqlite.Options) (*sqlite.Conn, error) {
	o.Limits, o.OnStuck = f.limits, f.onStuck
	c, err := sqlite.Open(f.path, o)
	if err != nil {
		return nil, fmt.Errorf("open for reading: %w", err)
	}
	return c, nil
}

// unopenable reports whether err, from opening a Reader, means that no Reader can be opened on f any more. A lack of memory
// or of file descriptors does not mean that: it passes, and the next file could not be opened either.
func (f *file) unopenable(err error) bool {
	if errors.Is(err, sqlite.ErrDamaged) {
		return true
	}
	_, err = os.Stat(f.path)
	return errors.Is(err, fs.ErrNotExist)
}

func (f *file) release(c *sqlite.Conn) {
	f.mu.Lock()
	keep := !f.retired && len(f.idle) < maxIdle
	if keep {
		f.idle = append(f.idle, c)
	}
	f.mu.Unlock()
	if !keep {
		f.drop(c)
	}
}

// drop closes a connection for reading.
func (f *file) drop(c *sqlite.Conn) { _ = c.Close() } // the connection has only read.

// retire closes and removes the file. Reads in progress run to their end.
func (f *file) retire() {
	f.mu.Lock()
	idle := f.idle
	f.idle, f.retired = nil, true
	f.mu.Unlock()
	for _, c := range idle {
		f.drop(c)
	}
	_ = f.writer.Close() // nothing in the file is worth keeping.
	removeFiles(f.path)
}
