package commitlog_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"rideshare/internal/dbaas"
	"rideshare/internal/replication"
	"rideshare/internal/testkit/disktest"
	"rideshare/internal/testkit/storetest"
	"rideshare/persdb/commitlog"
)

// powerRun is a store on a disk that loses power again and again, with a model of its answers and a remote replica.
type powerRun struct {
	dir     string // of the replica
	rng     *rand.Rand
	disk    *disktest.Disk
	spoil   func(*commitlog.Store) error // makes the store lose data that it must keep
	elapsed time.Duration
	store   *commitlog.Store
	epoch   dbaas.Epoch // the newest epoch that the store has returned
	model   *model
	flight  []request // requests that were sent but not answered
	trimmed dbaas.Seq // may be trimmed up to here
	replica *logReader
	batches int
	cuts    map[string]int // by the current step and the disk operation at which power was lost
}

// errOff means that the disk lost power; every other error is a failure of the test.
var errOff = errors.New("the disk is off")

// grow makes transactions of very different sizes, and leaves free pages behind.
var grow = []string{
	"CREATE TABLE kv(k INTEGER PRIMARY KEY, v INTEGER CHECK(v>=0))", "CREATE TABLE pad(b)",
	"CREATE TRIGGER grow AFTER INSERT ON kv BEGIN INSERT INTO pad VALUES(randomblob(1+abs(random())%30000)); END",
	"CREATE TRIGGER fall AFTER DELETE ON kv BEGIN DELETE FROM pad WHERE rowid%3>0; END",
}

func (r *powerRun) config() commitlog.Config {
	return commitlog.ShrinkFrom(commitlog.OnDisk(commitlog.Config{
		Dir: filepath.Join(r.disk.Dir(), "persdb"), TrimEvery: -1, Reserve: 16 << 10, Elapsed: func() time.Duration { return r.elapsed },
		StatementLimit: patience, OperationLimit: patience, SharedLimit: patience,
	}, r.disk.SyncPath, r.disk.Rename), 60_000)
}

// play makes the disk lose power the given number of times, and returns the first error it finds.
func (r *powerRun) play(ctx context.Context, times int) error {
	r.model, r.cuts = &model{rows: map[int]int{}, known: map[int]answer{}}, map[string]int{}
	defer func() {
		_ = r.leave() // without power, closing fails
		if r.replica != nil && r.replica.conn != nil {
			_ = r.replica.conn.Close()
		}
	}()
	for range times {
		r.disk.CutAfter(1 + r.rng.IntN([]int{8, 40, 300}[r.rng.IntN(3)]))
		what, err := "open", error(nil)
		for err == nil {
			what, err = r.step(ctx)
		}
		if !errors.Is(err, errOff) {
			return fmt.Errorf("%s: %w", what, err)
		}
		if err = r.comeBack(ctx, what); err != nil {
			return fmt.Errorf("after the disk went off in %s: %w", what, err)
		}
	}
	return nil
}

// step performs one action with the store, and returns its name.
func (r *powerRun) step(ctx context.Context) (string, error) {
	if r.store == nil {
		return "open", r.open(ctx)
	}
	if r.model.seq == 0 {
		return "first commit", r.first(ctx)
	}
	switch n := r.rng.IntN(20); n {
	case 0:
		return "claim", r.claim(ctx)
	case 1:
		return "trim", r.trim(ctx)
	case 2:
		r.store.Checkpoint()
		return "checkpoint", r.offOr(nil)
	case 3:
		err := r.store.Close()
		r.store = nil
		return "close", r.offOr(err)
	case 4:
		return "snapshot", r.offOr(r.fetch(ctx))
	case 5:
		return "replica", r.offOr(r.follow(ctx))
	default:
		return "commit", r.commit(ctx)
	}
}

// offOr returns errOff if the disk is off: err is meaningless then.
func (r *powerRun) offOr(err error) error {
	if off, _ := r.disk.Off(); off {
		return errOff
	}
	return err
}

func (r *powerRun) open(ctx context.Context) error {
	s, err := commitlog.Open(ctx, app(r.config()))
	if err != nil {
		return r.offOr(err)
	}
	r.store = s
	if r.spoil != nil {
		if err = r.spoil(s); err != nil {
			return r.offOr(err)
		}
	}
	head, err := s.Head(ctx)
	if err != nil || head.Epoch < r.epoch {
		return fmt.Errorf("the store has epoch %d, and gave out %d before, %w", head.Epoch, r.epoch, err)
	}
	if r.epoch == 0 || head.Epoch != r.epoch || r.rng.IntN(3) == 0 {
		return r.claim(ctx)
	}
	return r.offOr(nil) // the previous master continues
}

func (r *powerRun) claim(ctx context.Context) error {
	epoch, err := r.store.Claim(ctx)
	if err != nil {
		return r.offOr(err)
	}
	if epoch <= r.epoch {
		return fmt.Errorf("got epoch %d after %d", epoch, r.epoch)
	}
	r.epoch = epoch
	return nil
}

func (r *powerRun) first(ctx context.Context) error {
	c, err := r.store.Commit(ctx, dbaas.Leadership{Epoch: r.epoch}, []dbaas.Operation{storetest.Atomic(1_000_000, grow...)})
	if err != nil {
		return r.offOr(err)
	}
	r.model.seq = c.Entry.Seq
	return nil
}

// commit sends a batch; some of its operations were sent before, in the same or another form.
func (r *powerRun) commit(ctx context.Context) error {
	r.flight = rapid.Custom(drawBatch).Example(int(r.rng.Int64()))
	for i := range r.flight {
		r.flight[i].id += 5 * r.batches
	}
	r.batches++
	return r.send(ctx)
}

// send sends the batch and compares the answers with those of the model.
func (r *powerRun) send(ctx context.Context) error {
	var ops []dbaas.Operation
	for _, q := range r.flight {
		o := q.operation()
		o.SeenSeq = r.model.seq
		ops = append(ops, o)
	}
	c, err := r.store.Commit(ctx, dbaas.Leadership{Epoch: r.epoch}, ops)
	if err != nil {
		return r.offOr(err)
	}
	want := r.model.commit(r.flight)
	for i := range want {
		if got := answerOf(c.Results[i]); got != want[i] {
			return fmt.Errorf("operation %+v: got %q, want %q", r.flight[i], got, want[i])
		}
	}
	r.flight = nil
	return nil
}

func (r *powerRun) trim(ctx context.Context) error {
	r.elapsed += 2 * time.Hour
	r.trimmed = r.model.seq - 1
	if _, err := r.store.Trim(ctx); err != nil {
		return r.offOr(err)
	}
	return r.recall(ctx)
}

// recall looks up every operation that the store must know, and forgets those that the store has trimmed.
func (r *powerRun) recall(ctx context.Context) error {
	for id, a := range r.model.known {
		got, err := r.store.Lookup(ctx, storetest.ID(id))
		switch {
		case dbaas.CodeOf(err) == dbaas.CodeNotFound && a.seq <= r.trimmed:
			delete(r.model.known, id)
		case err != nil:
			return r.offOr(fmt.Errorf("operation %d, answered %q: %w", id, a.text, err))
		case answerOf(got) != a.text:
			return fmt.Errorf("operation %d: got %q, answered %q", id, answerOf(got), a.text)
		}
	}
	return nil
}

// fetch rebuilds the replica from a snapshot.
func (r *powerRun) fetch(ctx context.Context) error {
	if r.replica != nil {
		if err := r.replica.conn.Close(); err != nil {
			return err
		}
	}
	r.batches++
	r.replica = &logReader{path: filepath.Join(r.dir, fmt.Sprintf("replica%d.db", r.batches)), step: 3}
	if err := r.replica.fetch(ctx, r.store); err != nil {
		r.replica = nil
		return err
	}
	return nil
}

// follow lets the replica apply all entries. The store must have everything that the replica has.
func (r *powerRun) follow(ctx context.Context) error {
	if r.replica == nil {
		return r.fetch(ctx)
	}
	at, err := replication.Position(r.replica.conn)
	if err != nil {
		return err
	}
	head, err := r.store.Head(ctx)
	if err != nil {
		return err
	}
	if at.Seq > head.Seq {
		return fmt.Errorf("the store is at %d, and the replica already at %d", head.Seq, at.Seq)
	}
	err = r.replica.follow(ctx, r.store)
	if errors.Is(err, dbaas.ErrGone) { // trimmed
		return r.fetch(ctx)
	}
	return err
}

// leave closes the store, as the end of its process does.
func (r *powerRun) leave() error {
	s := r.store
	if r.store = nil; s == nil {
		return nil
	}
	return s.Close()
}

// comeBack starts the store again, on a disk that may lose power during the start, and checks its content.
func (r *powerRun) comeBack(ctx context.Context, what string) error {
	for again := true; again; {
		_ = r.leave() // closing fails without power
		_, last := r.disk.Off()
		r.cuts[fmt.Sprintf("%s: %s %s", what, last.Kind, filepath.Ext(last.Name))]++
		if r.rng.IntN(3) == 0 {
			r.disk.Restart()
		} else if err := r.disk.LosePower(r.rng); err != nil {
			return err
		}
		if again = r.rng.IntN(4) == 0; again {
			r.disk.CutAfter(1 + r.rng.IntN(20))
		}
		err := r.open(ctx)
		if again = errors.Is(err, errOff); again {
			what = "open again"
			continue
		}
		if err != nil {
			return err
		}
		r.disk.CutAfter(0)
	}
	return r.check(ctx)
}

// check compares the store with the model. A batch that was in flight is there whole, or not at all.
func (r *powerRun) check(ctx context.Context) error {
	head, err := r.store.Head(ctx)
	if err != nil {
		return err
	}
	if head.Seq == r.model.seq+1 {
		if r.model.seq == 0 {
			r.model.seq = 1
		} else {
			r.model.commit(r.flight)
		}
	}
	if head.Seq != r.model.seq {
		return fmt.Errorf("the store is at %d, answered was up to %d", head.Seq, r.model.seq)
	}
	if err = errors.Join(r.recall(ctx), r.sameRows(ctx)); err != nil {
		return err
	}
	if len(r.flight) > 0 && r.rng.IntN(2) == 0 { // the master sends it again
		return r.send(ctx)
	}
	r.flight = nil
	return nil
}

// sameRows compares the rows of store, model and replica, the file's structure, and the sums.
func (r *powerRun) sameRows(ctx context.Context) error {
	if r.model.seq == 0 {
		return nil
	}
	if err := r.follow(ctx); err != nil {
		return err
	}
	p, err := openPlain(filepath.Join(r.config().Dir, commitlog.FileName))
	if err != nil {
		return err
	}
	defer p.close()
	if r := p.one(&dbaas.Statement{SQL: "PRAGMA integrity_check"}); len(r.Rows) != 1 || r.Rows[0][0].Text != "ok" {
		return fmt.Errorf("integrity_check: %v %s", r.Rows, r.Message)
	}
	rows := map[int]int{}
	for _, row := range p.one(&dbaas.Statement{SQL: "SELECT k, v FROM kv"}).Rows {
		rows[int(row[0].Int)] = int(row[1].Int)
	}
	if !maps.Equal(rows, r.model.rows) {
		return fmt.Errorf("rows are %v, want %v", rows, r.model.rows)
	}
	want, err := r.store.Hashes(ctx)
	if err != nil || len(want.Damaged) > 0 {
		return fmt.Errorf("sums: damaged %v, %w", want.Damaged, err)
	}
	got, err := replication.Hashes(r.replica.conn, func() {})
	if diff := cmp.Diff(want.Tables, got); err != nil || diff != "" {
		return fmt.Errorf("the replica differs, %w (-store +replica):\n%s", err, diff)
	}
	return nil
}
