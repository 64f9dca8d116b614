package commitlog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/failpoint"
	"rideshare/internal/logkey"
	"rideshare/internal/replication"
	"rideshare/internal/tracing"
	"rideshare/internal/wire"
)

// Commit runs the operations of one batch in order, as one transaction, one entry and one fsync, and returns one result
// for each operation.
//
// A nil error means that everything in the batch is on disk. The result of an operation depends on its id and deadline:
//   - A known id gets the result of its first run.
//   - An id that may have run so long ago that the log no longer knows it is refused with CodeExpired.
//   - An operation past its deadline, or accepted for another cluster, did not run and is refused with CodeUnavailable.
//   - An operation that failed or is given up is recorded as failed, unless it was accepted for another cluster under
//     an id that the client chose.
//
// Entry is nil when the batch produced no entry. Its frame leaves out large changes; see wire.EncodeEntry.
//
// Errors are *dbaas.Error and concern the whole batch: CodeStaleEpoch (not done, a newer master exists, or by is of
// another cluster), CodeFull and CodeUnavailable (certainly not done), CodeTooLarge (not done), CodeUnknown (may be
// done; sending the same batch again finds out).
func (s *Store) Commit(ctx context.Context, by dbaas.Leadership, ops []dbaas.Operation) (dbaas.Commit, error) {
	began := time.Now()
	ctx, span := tracing.Start(ctx, tracing.Persdb, "commit")
	span.Int("rideshare.requests", len(ops))
	out, err := s.commit(ctx, by, ops)
	span.End(err)
	took := time.Since(began)
	s.trace(ctx, ops, out, err, took)
	if s.cfg.OnCommit != nil {
		s.cfg.OnCommit(len(ops), dbaas.CodeOf(err), took)
	}
	return out, err
}

func (s *Store) commit(ctx context.Context, by dbaas.Leadership, ops []dbaas.Operation) (dbaas.Commit, error) {
	var out dbaas.Commit
	var entry *dbaas.Entry
	err := s.write(ctx, ops, func() error {
		if !by.Cluster.IsZero() && by.Cluster != s.cluster {
			return dbaas.Errorf(dbaas.CodeStaleEpoch, "the commit is for cluster %s, the database is cluster %s", by.Cluster, s.cluster)
		}
		if s.cfg.Shared && by.Epoch > s.bounds.Head.Epoch { // another process may have issued this epoch; only the log knows.
			if err := s.settle(ctx); err != nil {
				return unavailable(err)
			}
		}
		epoch, newest := by.Epoch, s.bounds.Head.Epoch // written under writing only.
		if epoch == 0 || epoch != newest && !failpoint.On(failpoint.NoEpochCheck) {
			return fmt.Errorf("commit with epoch %d, newest is %d: %w", epoch, newest, dbaas.ErrStaleEpoch)
		}
		b := &batch{s: s, began: time.Now(), epoch: epoch, ops: ops, results: make([]dbaas.OperationResult, len(ops))}
		if err := b.resolve(ctx); err != nil {
			return unavailable(err)
		}
		if len(b.run) > 0 {
			if err := s.archiveRefusal(ctx); err != nil {
				return err
			}
			if err := s.catchUp(ctx); err != nil {
				return unavailable(err)
			}
			if err := s.conn.Within(ctx, func() error { return b.commit(ctx) }); err != nil {
				return err
			}
		}
		if b.entry == nil {
			if err := s.backed(ctx); err != nil {
				return err
			}
		}
		b.copyDuplicates()
		out.Results, entry = b.results, b.entry
		return nil
	})
	if err == nil && entry != nil {
		out.Entry, err = encode(entry)
	}
	if err != nil {
		return dbaas.Commit{}, err
	}
	return out, nil
}

// encode returns a committed entry as the replicas get it.
func encode(e *dbaas.Entry) (*dbaas.EncodedEntry, error) {
	frame, err := wire.EncodeEntry(e.ForReplicas())
	if err != nil { // the entry is on disk: the caller finds the results by their ids.
		return nil, dbaas.WrapError(dbaas.CodeUnknown, "the entry could not be encoded", err)
	}
	return &dbaas.EncodedEntry{Head: dbaas.Head{Cluster: e.Cluster, Seq: e.Seq, Epoch: e.Epoch}, Frame: frame}, nil
}

// batch is one call of Commit.
type batch struct {
	s          *Store
	began      time.Time
	epoch      dbaas.Epoch
	ops        []dbaas.Operation
	results    []dbaas.OperationResult
	run        []int       // indices of the operations to run
	duplicates map[int]int // index of a duplicate operation -> index of the first with the same id
	changes    []dbaas.Change
	entry      *dbaas.Entry
	plan       plan
	used       int64 // pages of the file before the batch
}

// resolve answers the operations that need no run, because they are known, expired, late, foreign or repeated. It puts
// the others into b.run.
func (b *batch) resolve(ctx context.Context) error {
	now := time.Now() // deadlines were set by this clock when the batch arrived
	first := make(map[dbaas.OpID]int, len(b.ops))
	known := lookup{s: b.s}
	for i := range b.ops {
		op := &b.ops[i]
		b.results[i].ID = op.ID
		if j, ok := first[op.ID]; ok {
			if b.duplicates == nil {
				b.duplicates = map[int]int{}
			}
			b.duplicates[i] = j
			continue
		}
		record, ok, err := known.find(ctx, op.ID)
		switch {
		case dbaas.CodeOf(err) == dbaas.CodeDamaged:
			b.s.cfg.Log.ErrorContext(ctx, "write refused, it was done before and its answer is damaged", logkey.Op, op.ID.String(), logkey.Error, err)
			b.refuse(i, dbaas.CodeExpired, damagedMessage)
		case err != nil:
			return err
		case op.ID.IsZero():
			b.refuse(i, dbaas.CodeInvalid, "the operation has no id")
		case ok && failpoint.On(failpoint.NoDeduplication):
			b.run = append(b.run, i)
		case ok && record.Fingerprint != op.Fingerprint:
			b.refuse(i, dbaas.CodeMismatch, mismatchMessage)
		case ok:
			b.results[i] = record.Result
		case b.foreign(op):
			b.refuse(i, dbaas.CodeUnavailable, "the write was accepted for cluster "+op.Cluster.String()+", the database is cluster "+b.s.cluster.String()+"; it was not done")
		case op.GiveUp == "" && b.tooOld(op):
			b.refuse(i, dbaas.CodeExpired, tooOldMessage)
		case op.GiveUp == "" && !op.Deadline.IsZero() && now.After(op.Deadline):
			b.refuse(i, dbaas.CodeUnavailable, "the write came after its deadline and was not done")
		default:
			first[op.ID] = i
			b.run = append(b.run, i)
		}
	}
	return nil
}

// foreign reports whether an operation was accepted for another cluster and must leave nothing here. A failure under the
// client's own id would answer the same id sent to this cluster. A generated id is never sent again, so the failure of an
// operation that is given up can be stored under it.
func (b *batch) foreign(op *dbaas.Operation) bool {
	return !op.Cluster.IsZero() && op.Cluster != b.s.cluster && (op.GiveUp == "" || !op.ID.Generated())
}

// tooOld reports whether an unknown operation may have run in an entry that was trimmed or is damaged.
func (b *batch) tooOld(op *dbaas.Operation) bool {
	return op.SeenSeq < max(b.s.bounds.Trimmed, b.s.index.lost)
}

// givenUp returns the result of an operation that is given up: a permanent failure.
func (b *batch) givenUp(op *dbaas.Operation) dbaas.OperationResult {
	failed := dbaas.StatementResult{Code: dbaas.CodeUnavailable, Message: op.GiveUp}
	if b.tooOld(op) {
		failed = dbaas.StatementResult{Code: dbaas.CodeExpired, Message: tooOldMessage}
	}
	return dbaas.OperationResult{ID: op.ID, Statements: []dbaas.StatementResult{failed}}
}

const tooOldMessage = "the write is too old to know whether it was done before; it was not done now"

const damagedMessage = "the stored answer to the write is damaged; it was not done again"

const mismatchMessage = "the operation's id was used for another operation"

func (b *batch) refuse(i int, code dbaas.Code, message string) {
	b.results[i] = dbaas.OperationResult{ID: b.ops[i].ID, Code: code, Message: message}
}

// copyDuplicates gives repeated operations of the batch the result of the first.
func (b *batch) copyDuplicates() {
	for i, j := range b.duplicates {
		if b.ops[i].Fingerprint != b.ops[j].Fingerprint {
			b.refuse(i, dbaas.CodeMismatch, mismatchMessage)
			continue
		}
		b.results[i] = b.results[j]
	}
}

// commit runs the operations and stores the entry. If an operation cannot stay in the transaction without affecting
// others, commit undoes everything and runs the batch again without it. Each round excludes at least one statement, so
// the loop ends.
func (b *batch) commit(ctx context.Context) error {
	c := b.s.conn
	for {
		if err := c.BeginWrite(); err != nil {
			return unavailable(err)
		}
		err := b.round(ctx)
		if errors.Is(err, errRetry) {
			if err = c.End(); err != nil {
				return unavailable(err)
			}
			continue
		}
		if err == nil && len(b.ran()) == 0 {
			b.place(b.s.bounds.Head.Seq)
			return unavailableOrNil(c.End())
		}
		if err == nil {
			err = b.store(ctx)
		}
		if err == nil {
			return nil
		}
		return errors.Join(err, c.End())
	}
}

func unavailableOrNil(err error) error {
	if err == nil {
		return nil
	}
	return unavailable(err)
}

// place sets the position of every operation that ran: the entry of the batch, or the head at which it read.
func (b *batch) place(seq dbaas.Seq) {
	for _, i := range b.run {
		if b.results[i].Code == dbaas.CodeOK {
			b.results[i].Seq = seq
		}
	}
}

// ran returns the indices of the operations that belong in the entry.
func (b *batch) ran() []int {
	ran := b.run[:0:0]
	for _, i := range b.run {
		if b.results[i].Code == dbaas.CodeOK && b.needsRecord(i) {
			ran = append(ran, i)
		}
	}
	return ran
}

// store appends the entry to the log, which commits it. It then commits the tables and publishes the entry. If Append
// fails with any code but CodeUnknown, nothing is committed. After Append the entry cannot be undone.
func (b *batch) store(ctx context.Context) error {
	s := b.s
	entry, ids, records, err := b.build()
	if err != nil {
		return err
	}
	if err = replication.SetPosition(s.conn, dbaas.Head{Seq: entry.Seq, Epoch: entry.Epoch}); err != nil {
		return unavailable(err)
	}
	if err = errors.Join(s.hooks.beforeAppend.call(), failpoint.Fail(failpoint.PersdbBeforeCommit)); err != nil {
		return unavailable(err)
	}
	record := Record{Entry: *entry, Operations: records}
	if err = s.appendRecord(ctx, record); err != nil {
		s.notAppended(err, ids)
		return unavailable(err)
	}
	s.commitTables(ctx, entry.Seq)
	s.mu.Lock()
	s.index.add(&record, ids, s.cfg.Elapsed())
	bounds := s.bounds
	bounds.Head.Seq = entry.Seq
	s.moveTo(bounds)
	s.mu.Unlock()
	s.lastAt = entry.At
	if err = s.measure(); err != nil {
		s.cfg.Log.WarnContext(ctx, "tables not measured", logkey.Error, err)
	}
	b.entry = entry
	if err = errors.Join(s.hooks.afterCommit.call(), failpoint.Fail(failpoint.PersdbAfterCommit)); err != nil {
		return dbaas.WrapError(dbaas.CodeUnknown, "the outcome of the commit is not known", err)
	}
	return nil
}

// appendRecord appends to the log and reports how long that took.
func (s *Store) appendRecord(ctx context.Context, r Record) error {
	began := time.Now()
	_, span := tracing.Start(ctx, tracing.Persdb, "fsync")
	err := s.log.Append(ctx, r)
	span.End(err)
	if s.cfg.OnSync != nil {
		s.cfg.OnSync(time.Since(began))
	}
	return err
}

// commitTables commits the tables' transaction of an entry that is in the log. It ignores the caller's context, so that
// it is not interrupted. If COMMIT fails, the entry stays committed, and catchUp applies it before the next batch runs.
func (s *Store) commitTables(ctx context.Context, seq dbaas.Seq) {
	err := errors.Join(s.hooks.beforeTables.call(), failpoint.Fail(failpoint.PersdbBeforeTables))
	if err == nil {
		err = s.conn.Within(context.Background(), s.conn.Commit)
	}
	if err == nil {
		s.applied = seq
		s.capture.Committed()
		s.noteRoom(ctx)
		return
	}
	s.cfg.Log.WarnContext(ctx, "the tables are behind the log until the next write", logkey.Seq, seq, logkey.Error, err)
	_ = s.conn.End() // catchUp ends the transaction again.
	_ = s.noteFull(ctx, err)
}

// build builds the entry of the operations that ran.
func (b *batch) build() (*dbaas.Entry, []dbaas.OpID, []byte, error) {
	s := b.s
	at := s.cfg.Now().Truncate(time.Millisecond)
	if at.Before(s.lastAt) { // the times of entries never go back.
		at = s.lastAt
	}
	entry := &dbaas.Entry{Cluster: s.cluster, Seq: s.bounds.Head.Seq + 1, Epoch: b.epoch, At: at, Changes: b.changes}
	b.place(entry.Seq)
	ran := b.ran()
	ids, records := make([]dbaas.OpID, len(ran)), make([]wire.Record, len(ran))
	for n, i := range ran {
		ids[n] = b.ops[i].ID
		records[n] = wire.Record{Fingerprint: b.ops[i].Fingerprint, Result: kept(b.results[i])}
	}
	encoded, err := wire.EncodeRecords(entry.Shard, records)
	if err != nil {
		return nil, nil, nil, dbaas.WrapError(dbaas.CodeTooLarge, "the batch is too large", err)
	}
	return entry, ids, encoded, nil
}
