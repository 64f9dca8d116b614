package commitlog_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/replication"
	"rideshare/internal/sqlite"
	"rideshare/internal/testkit/sqlgen"
	"rideshare/internal/testkit/storetest"
	"rideshare/internal/wire"
	"rideshare/persdb/commitlog"
)

// scriptRun is a running script: the store, the replicas that follow it, and plain SQLite.
type scriptRun struct {
	dir      string
	now      time.Time     // the wall clock, which steps
	elapsed  time.Duration // the clock that never steps
	store    *commitlog.Store
	epoch    dbaas.Epoch
	model    *plain
	replicas []*logReader
	first    map[int]firstAnswer // by operation number
	trimmed  dbaas.Seq
	loose    bool
}

// firstAnswer is the answer to an operation when it ran.
type firstAnswer struct {
	sent   dbaas.Operation
	result dbaas.OperationResult
}

// logReader is a replica that applies some entries in one transaction.
type logReader struct {
	path    string
	conn    *sqlite.Conn
	applier *replication.Applier
	step    int
}

// play runs a script in a directory in memory, if there is one, and returns the first error it finds.
func play(ctx context.Context, s sqlgen.Script) (err error) {
	parent := "/dev/shm"
	if info, statErr := os.Stat(parent); statErr != nil || !info.IsDir() {
		parent = ""
	}
	dir, err := os.MkdirTemp(parent, "rideshare-anysql-")
	if err != nil {
		return err
	}
	r := &scriptRun{dir: dir, now: time.Now(), first: map[int]firstAnswer{}, loose: s.Loose}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
		err = errors.Join(err, r.end(), os.RemoveAll(dir))
	}()
	if err := r.begin(ctx); err != nil {
		return err
	}
	for i, b := range s.Batches {
		if err := r.batch(ctx, b.Operations); err != nil {
			return fmt.Errorf("batch %d: %w", i, err)
		}
		if err := r.act(ctx, b.Then); err != nil {
			return fmt.Errorf("%s after batch %d: %w", b.Then, i, err)
		}
		r.elapsed += 20 * time.Minute
		r.now = r.now.Add([]time.Duration{20 * time.Minute, 20 * time.Minute, -3 * time.Hour, 10 * year, -10 * year}[i%5])
	}
	return r.compare(ctx)
}

func (r *scriptRun) begin(ctx context.Context) error {
	if err := r.open(ctx); err != nil {
		return err
	}
	for _, step := range []int{1, 1 << 20} {
		if err := r.join(ctx, step); err != nil {
			return err
		}
	}
	copied, err := os.ReadFile(r.replicas[0].path)
	if err != nil {
		return err
	}
	path := filepath.Join(r.dir, "plain.db")
	if err = os.WriteFile(path, copied, 0o600); err != nil {
		return err
	}
	r.model, err = openPlain(path)
	return err
}

// patience is far more than any statement of a script takes on a busy machine.
const patience = time.Minute

const year = 365 * 24 * time.Hour

func (r *scriptRun) wall() time.Time      { return r.now }
func (r *scriptRun) since() time.Duration { return r.elapsed }

func (r *scriptRun) open(ctx context.Context) error {
	var err error
	r.store, err = commitlog.Open(ctx, app(commitlog.Config{
		Dir: filepath.Join(r.dir, "persdb"), TrimEvery: -1, Now: r.wall, Elapsed: r.since,
		StatementLimit: patience, OperationLimit: patience, SharedLimit: patience,
	}))
	if err == nil {
		r.epoch, err = r.store.Claim(ctx)
	}
	return err
}

func (r *scriptRun) end() error {
	var errs []error
	for _, f := range r.replicas {
		errs = append(errs, f.conn.Close())
	}
	if r.model != nil {
		r.model.close()
	}
	if r.store != nil {
		errs = append(errs, r.store.Close())
	}
	return errors.Join(errs...)
}

// act performs the script's action between two batches.
func (r *scriptRun) act(ctx context.Context, what sqlgen.Action) error {
	switch what {
	case sqlgen.Restart:
		if err := r.store.Close(); err != nil {
			return err
		}
		return r.open(ctx)
	case sqlgen.Claim:
		var err error
		r.epoch, err = r.store.Claim(ctx)
		return err
	case sqlgen.Join:
		return r.join(ctx, 3)
	case sqlgen.Follow:
		return r.follow(ctx)
	case sqlgen.Trim:
		head, err := r.store.Head(ctx)
		if err != nil {
			return err
		}
		n, err := r.store.Trim(ctx)
		if n > 0 { // at most all but the newest.
			r.trimmed = head.Seq - 1
		}
		return err
	case sqlgen.Nothing:
	}
	return nil
}

// operation builds the operation that a client sends; the same content under the same number is the same message again.
func (r *scriptRun) operation(o *sqlgen.Operation, head dbaas.Head) dbaas.Operation {
	op := storetest.Op(o.Number)
	if o.Number%2 == 1 { // like an operation whose caller waits and gave no id
		op.ID[6], op.Deadline = 0x70, time.Now().Add(time.Hour)
	}
	op.SeenSeq, op.Atomic, op.Statements = head.Seq, o.Atomic, o.SQL()
	op.Fingerprint = wire.FingerprintOf(op.Atomic, op.Statements)
	if f, ok := r.first[o.Number]; ok && f.sent.Fingerprint == op.Fingerprint {
		op.SeenSeq = f.sent.SeenSeq
	}
	return op
}

// maxCommits bounds how often deferred operations are sent again.
const maxCommits = 100

// batch commits operations as a master does: deferred operations go into later commits.
func (r *scriptRun) batch(ctx context.Context, batch []sqlgen.Operation) error {
	pending := batch
	for range maxCommits {
		if len(pending) == 0 {
			return nil
		}
		head, err := r.store.Head(ctx)
		if err != nil {
			return err
		}
		var ops []dbaas.Operation
		for i := range pending {
			ops = append(ops, r.operation(&pending[i], head))
			if err = r.forget(ctx, &pending[i], &ops[i]); err != nil {
				return err
			}
		}
		c, err := r.store.Commit(ctx, dbaas.Leadership{Epoch: r.epoch}, ops)
		if err != nil {
			return fmt.Errorf("commit: %w", err)
		}
		var later []sqlgen.Operation
		for i := range c.Results {
			if code := c.Results[i].Code; code == dbaas.CodeAgain || code == dbaas.CodeSlow {
				later = append(later, pending[i])
				continue
			}
			if err := r.classify(&pending[i], &ops[i], &c.Results[i]); err != nil {
				return fmt.Errorf("operation %d: %w\n%s", pending[i].Number, err, pending[i].String())
			}
		}
		pending = later
	}
	return fmt.Errorf("%d operations were put off %d times", len(pending), maxCommits)
}

// join starts one more replica with a snapshot.
func (r *scriptRun) join(ctx context.Context, step int) error {
	f := &logReader{path: filepath.Join(r.dir, fmt.Sprintf("replica%d.db", len(r.replicas))), step: step}
	if err := f.fetch(ctx, r.store); err != nil {
		return err
	}
	r.replicas = append(r.replicas, f)
	return nil
}

// fetch rebuilds the file from a snapshot.
func (f *logReader) fetch(ctx context.Context, s *commitlog.Store) error {
	snapshot, err := s.Snapshot(ctx)
	if err != nil {
		return err
	}
	body, err := io.ReadAll(snapshot.Body)
	if err = errors.Join(err, snapshot.Body.Close()); err != nil {
		return err
	}
	if err = os.WriteFile(f.path, body, 0o600); err != nil {
		return err
	}
	f.conn, err = sqlite.Open(f.path, sqlite.Options{})
	f.applier = replication.NewApplier(f.conn)
	return err
}

// follow lets every replica apply all entries; a replica that is behind the log starts again from a snapshot.
func (r *scriptRun) follow(ctx context.Context) error {
	for i, f := range r.replicas {
		err := f.follow(ctx, r.store)
		if errors.Is(err, dbaas.ErrGone) {
			err = errors.Join(f.conn.Close(), os.Remove(f.path), f.fetch(ctx, r.store))
		}
		if err != nil {
			return fmt.Errorf("replica %d: %w", i, err)
		}
	}
	return nil
}

func (f *logReader) follow(ctx context.Context, s *commitlog.Store) error {
	for {
		at, err := replication.Position(f.conn)
		if err != nil {
			return err
		}
		page, err := s.Log(ctx, at.Seq, 0)
		if err != nil || len(page.Entries) == 0 {
			return err
		}
		for part := range slices.Chunk(page.Entries, f.step) {
			if err := f.apply(part); err != nil {
				return err
			}
		}
	}
}

func (f *logReader) apply(entries []dbaas.Entry) error {
	if err := f.conn.BeginWrite(); err != nil {
		return err
	}
	for _, e := range entries {
		if err := f.applier.Apply(e); err != nil {
			return errors.Join(err, f.conn.End())
		}
	}
	return f.conn.Commit()
}
