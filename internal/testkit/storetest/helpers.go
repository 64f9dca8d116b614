// Package storetest is the conformance suite for every access to persdb's store: directly, and through server and
// client. It also has helpers with which tests build operations and replicas.
package storetest

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/replication"
	"rideshare/internal/sqlite"
	"rideshare/internal/wire"

	"github.com/google/go-cmp/cmp"
)

// Store is the store under test. *commitlog.Store and *client.Client implement it.
type Store interface {
	Claim(ctx context.Context) (dbaas.Epoch, error)
	Commit(ctx context.Context, by dbaas.Leadership, ops []dbaas.Operation) (dbaas.Commit, error)
	Head(ctx context.Context) (dbaas.Head, error)
	Log(ctx context.Context, after dbaas.Seq, wait time.Duration) (dbaas.Page, error)
	Snapshot(ctx context.Context) (*dbaas.Snapshot, error)
	Lookup(ctx context.Context, id dbaas.OpID) (dbaas.OperationResult, error)
	Hashes(ctx context.Context) (dbaas.TableHashes, error)
	Sizes(ctx context.Context) (dbaas.Sizes, error)
	HashPart(ctx context.Context, from dbaas.HashFrom) (dbaas.HashPart, error)
}

// ID returns a fixed operation id for the number n.
func ID(n int) dbaas.OpID {
	var id dbaas.OpID
	binary.BigEndian.PutUint64(id[8:], uint64(n)+1)
	return id
}

// Op returns operation n, whose statements are independent of each other.
func Op(n int, statements ...string) dbaas.Operation {
	op := dbaas.Operation{ID: ID(n)}
	for _, text := range statements {
		op.Statements = append(op.Statements, dbaas.Statement{SQL: text})
	}
	op.Fingerprint = wire.FingerprintOf(op.Atomic, op.Statements)
	return op
}

// Atomic returns operation n, whose statements take effect together or not at all.
func Atomic(n int, statements ...string) dbaas.Operation {
	op := Op(n, statements...)
	op.Atomic = true
	op.Fingerprint = wire.FingerprintOf(true, op.Statements)
	return op
}

// Claim claims an epoch or fails the test.
func Claim(tb testing.TB, s Store) dbaas.Epoch {
	tb.Helper()
	epoch, err := s.Claim(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	return epoch
}

// Commit commits or fails the test.
func Commit(tb testing.TB, s Store, epoch dbaas.Epoch, ops ...dbaas.Operation) dbaas.Commit {
	tb.Helper()
	c, err := s.Commit(tb.Context(), dbaas.Leadership{Epoch: epoch}, ops)
	if err != nil {
		tb.Fatal(err)
	}
	if len(c.Results) != len(ops) {
		tb.Fatalf("got %d results for %d operations", len(c.Results), len(ops))
	}
	return c
}

// Entry returns the entry of a commit as a replica decodes it. It fails the test if the commit made no entry, or if the
// position in the frame differs from that in the commit.
func Entry(tb testing.TB, c dbaas.Commit) dbaas.Entry {
	tb.Helper()
	if c.Entry == nil {
		tb.Fatalf("got no entry, results %+v", c.Results)
	}
	e, err := wire.DecodeEntry(c.Entry.Frame)
	if err != nil {
		tb.Fatal(err)
	}
	if at := (dbaas.Head{Cluster: e.Cluster, Seq: e.Seq, Epoch: e.Epoch}); at != c.Entry.Head {
		tb.Fatalf("got a frame of %+v in a commit at %+v", at, c.Entry.Head)
	}
	return e
}

// Replica is a test replica of a store: a snapshot followed by the log.
type Replica struct {
	Path string
	Conn *sqlite.Conn

	applier *replication.Applier
}

// NewReplica takes a snapshot, checks it with an independent reader of the file,
// and opens it as a replica does.
func NewReplica(tb testing.TB, s Store) *Replica {
	tb.Helper()
	snapshot, err := s.Snapshot(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	path := filepath.Join(tb.TempDir(), "replica.db")
	f, err := os.Create(path) //nolint:gosec // a test's own file.
	if err != nil {
		tb.Fatal(err)
	}
	sum := dbaas.NewSnapshotSum()
	_, err = io.Copy(io.MultiWriter(f, sum), snapshot.Body)
	if err = errors.Join(err, f.Close(), snapshot.Body.Close()); err != nil {
		tb.Fatal(err)
	}
	if announced, whole := snapshot.Sum(); !whole || sum.Sum32() != announced {
		tb.Fatalf("snapshot does not fit its checksum, whole: %v", whole)
	}
	Witness(tb, path)
	c, err := sqlite.Open(path, sqlite.Options{Unchecked: true})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := c.Close(); err != nil {
			tb.Error(err)
		}
	})
	if got, err := replication.Position(c); err != nil || got != (dbaas.Head{Seq: snapshot.Head.Seq, Epoch: snapshot.Head.Epoch}) {
		tb.Fatalf("position in the snapshot is %v, %v, want %v", got, err, snapshot.Head)
	}
	return &Replica{Path: path, Conn: c, applier: replication.NewApplier(c)}
}

// Witness reads a file through database/sql, independently of the store, and checks its structure and the application's
// foreign keys. It does not check clients' own foreign keys, which may refer to no key. The test imports
// modernc.org/sqlite.
func Witness(tb testing.TB, path string) {
	tb.Helper()
	witness(tb, path, func(db *sql.DB) {
		var table string
		err := db.QueryRowContext(tb.Context(), `SELECT "table" FROM pragma_foreign_key_check('rides') UNION ALL SELECT "table" FROM pragma_foreign_key_check('riders')`).Scan(&table)
		if !errors.Is(err, sql.ErrNoRows) {
			tb.Fatalf("foreign_key_check of %s: %q, %v", filepath.Base(path), table, err)
		}
	})
}

// WitnessLog reads the log's file through database/sql and checks its structure.
func WitnessLog(tb testing.TB, path string) {
	tb.Helper()
	witness(tb, path, func(*sql.DB) {})
}

// witness opens a file, whose name may have any character, checks its structure, and calls more.
func witness(tb testing.TB, path string, more func(*sql.DB)) {
	tb.Helper()
	db, err := sql.Open("sqlite", (&url.URL{Scheme: "file", Path: path, RawQuery: "mode=ro"}).String())
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	sound(tb, db, path)
	more(db)
}

func sound(tb testing.TB, db *sql.DB, path string) {
	tb.Helper()
	var text string
	if err := db.QueryRowContext(tb.Context(), "PRAGMA integrity_check").Scan(&text); err != nil || text != "ok" {
		tb.Fatalf("integrity_check of %s: %q, %v", filepath.Base(path), text, err)
	}
}

// Follow applies the log up to the store's head and fails the test unless both
// sides then have the same content.
func (r *Replica) Follow(tb testing.TB, s Store) {
	tb.Helper()
	for {
		at, err := replication.Position(r.Conn)
		if err != nil {
			tb.Fatal(err)
		}
		page, err := s.Log(tb.Context(), at.Seq, 0)
		if err != nil {
			tb.Fatal(err)
		}
		if len(page.Entries) == 0 {
			break
		}
		if err := r.apply(page.Entries); err != nil {
			tb.Fatal(err)
		}
	}
	want, err := s.Hashes(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	got, err := replication.Hashes(r.Conn, func() {})
	if err != nil {
		tb.Fatal(err)
	}
	if diff := cmp.Diff(want.Tables, got); diff != "" {
		tb.Errorf("replica differs from the store (-store +replica):\n%s", diff)
	}
}

func (r *Replica) apply(entries []dbaas.Entry) error {
	if err := r.Conn.BeginWrite(); err != nil {
		return err
	}
	for _, e := range entries {
		if err := r.applier.Apply(e); err != nil {
			return errors.Join(err, r.Conn.End())
		}
	}
	return r.Conn.Commit()
}
