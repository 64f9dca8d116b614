package commitlog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/failpoint"
	"rideshare/internal/frame"
)

// clockSkew is how far the clocks of who accepts an operation and of persdb may
// be apart: 5 s, far more than hosts with NTP have.
const clockSkew = 5 * time.Second

// Commit runs the operations of one batch in order, as one transaction, one entry
// and one fsync, and returns one result for each.
//
// A nil error means that everything in it is on disk. An operation whose id is
// known gets the result of its first run; one that could have run before, but so
// long ago that this is forgotten, is refused with CodeExpired, as is one past its deadline; an operation that
// failed is remembered as failed. Entry is nil when no operation ran.
//
// Errors are *dbaas.Error and concern the whole batch: CodeStaleEpoch (not done,
// a newer master exists), CodeFull and CodeUnavailable (surely not done), CodeTooLarge
// (not done), CodeUnknown (may be done; the same batch sent again finds out).
func (s *Store) Commit(ctx context.Context, epoch dbaas.Epoch, ops []dbaas.Operation) (dbaas.Commit, error) {
	began := time.Now()
	out, err := s.commit(ctx, epoch, ops)
	took := time.Since(began)
	s.trace(ctx, ops, out, err, took)
	if s.cfg.OnCommit != nil {
		s.cfg.OnCommit(len(ops), dbaas.CodeOf(err), took)
	}
	return out, err
}

func (s *Store) commit(ctx context.Context, epoch dbaas.Epoch, ops []dbaas.Operation) (dbaas.Commit, error) {
	var out dbaas.Commit
	err := s.write(ctx, func() error {
		newest := s.bounds.Head.Epoch // written under writing only.
		if epoch == 0 || epoch != newest && !failpoint.On(failpoint.NoEpochCheck) {
			return fmt.Errorf("commit with epoch %d, newest is %d: %w", epoch, newest, dbaas.ErrStaleEpoch)
		}
		b := &batch{s: s, epoch: epoch, ops: ops, results: make([]dbaas.OperationResult, len(ops))}
		if err := b.resolve(ctx); err != nil {
			return unavailable(err)
		}
		if len(b.run) > 0 {
			if err := s.conn.Within(ctx, func() error { return b.commit(ctx) }); err != nil {
				return err
			}
		}
		b.copyTwins()
		out = dbaas.Commit{Results: b.results, Entry: b.entry}
		return nil
	})
	if err != nil {
		return dbaas.Commit{}, err
	}
	return out, nil
}

// batch is one call of Commit.
type batch struct {
	s       *Store
	epoch   dbaas.Epoch
	ops     []dbaas.Operation
	results []dbaas.OperationResult
	run     []int       // places of the operations to run
	twins   map[int]int // place of an operation met before in the batch -> place of the first
	entry   *dbaas.Entry
	plan    plan
}

// resolve decides what needs no run: known, expired and repeated operations.
func (b *batch) resolve(ctx context.Context) error {
	now := b.s.cfg.Now()
	horizon := b.s.bounds.Horizon
	first := make(map[dbaas.OpID]int, len(b.ops))
	known := lookup{s: b.s}
	for i := range b.ops {
		op := &b.ops[i]
		b.results[i].ID = op.ID
		if j, ok := first[op.ID]; ok {
			if b.twins == nil {
				b.twins = map[int]int{}
			}
			b.twins[i] = j
			continue
		}
		record, ok, err := known.find(ctx, op.ID)
		switch {
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
		case !op.Deadline.IsZero() && now.After(op.Deadline):
			b.refuse(i, dbaas.CodeExpired, "the operation came after its deadline and was not run")
		case !horizon.IsZero() && !op.IssuedAt.After(horizon.Add(clockSkew)):
			b.refuse(i, dbaas.CodeExpired, "the operation is too old to tell whether it was run before, it was not run now")
		default:
			first[op.ID] = i
			b.run = append(b.run, i)
		}
	}
	return nil
}

const mismatchMessage = "the operation's id was used for another operation"

func (b *batch) refuse(i int, code dbaas.Code, message string) {
	b.results[i] = dbaas.OperationResult{ID: b.ops[i].ID, Code: code, Message: message}
}

// copyTwins gives operations that came twice in the batch the first one's result.
func (b *batch) copyTwins() {
	for i, j := range b.twins {
		if b.ops[i].Fingerprint != b.ops[j].Fingerprint {
			b.refuse(i, dbaas.CodeMismatch, mismatchMessage)
			continue
		}
		b.results[i] = b.results[j]
	}
}

// commit runs the operations and stores the entry. When an operation cannot stay
// in the transaction without hurting the others, everything is undone and run
// again without it: each round takes at least one statement out, so there is an end.
func (b *batch) commit(ctx context.Context) error {
	c := b.s.conn
	for {
		if err := c.BeginWrite(); err != nil {
			return unavailable(err)
		}
		err := b.attempt()
		if errors.Is(err, errAgain) {
			if err = c.End(); err != nil {
				return unavailable(err)
			}
			continue
		}
		if err == nil && len(b.ran()) == 0 {
			return unavailableOrNil(c.End())
		}
		if err == nil {
			err = b.store(ctx)
		}
		if err == nil {
			return nil
		}
		if end := c.End(); end != nil {
			b.s.doubtful = true
			err = errors.Join(err, end)
		}
		return err
	}
}

func unavailableOrNil(err error) error {
	if err == nil {
		return nil
	}
	return unavailable(err)
}

// ran returns the places of the operations that belong into the entry.
func (b *batch) ran() []int {
	ran := b.run[:0:0]
	for _, i := range b.run {
		if b.results[i].Code == dbaas.CodeOK {
			ran = append(ran, i)
		}
	}
	return ran
}

// store appends the entry, commits and publishes it. On any error before COMMIT
// surely nothing is done; an error of COMMIT itself is unknown, unless the
// transaction is still there to be undone.
func (b *batch) store(ctx context.Context) error {
	s := b.s
	entry, ids, records, err := b.build()
	if err != nil {
		return err
	}
	if err = s.hooks.beforeAppend.call(); err != nil {
		return unavailable(err)
	}
	if err = s.conn.SetPosition(dbaas.Head{Seq: entry.Seq, Epoch: entry.Epoch}); err != nil {
		return unavailable(err)
	}
	if err = s.log.Append(ctx, Record{Entry: *entry, Operations: records}); err != nil {
		s.doubtful = dbaas.CodeOf(err) == dbaas.CodeUnknown
		return unavailable(err)
	}
	if err = errors.Join(s.hooks.beforeCommit.call(), failpoint.Fail(failpoint.PersdbBeforeCommit)); err == nil {
		err = s.commitNow()
	}
	if err != nil {
		return s.commitFailed(err)
	}
	s.mu.Lock()
	s.index.add(entry, ids)
	bounds := s.bounds
	bounds.Head.Seq = entry.Seq
	s.moveTo(bounds)
	s.mu.Unlock()
	s.lastAt = entry.At
	b.entry = entry
	if err = errors.Join(s.hooks.afterCommit.call(), failpoint.Fail(failpoint.PersdbAfterCommit)); err != nil {
		return dbaas.WrapError(dbaas.CodeUnknown, "the outcome of the commit is not known", err)
	}
	return nil
}

// commitNow is COMMIT without the caller's context: a commit is never interrupted
// half way.
func (s *Store) commitNow() error {
	began := time.Now()
	err := s.conn.Within(context.Background(), s.conn.Commit)
	if s.cfg.OnSync != nil {
		s.cfg.OnSync(time.Since(began))
	}
	return err
}

// commitFailed decides what an error of COMMIT means. The log may have the entry
// already if it is not in this file, so then only it knows.
func (s *Store) commitFailed(err error) error {
	if _, local := s.log.(*TableLog); local && s.conn.InTransaction() {
		if end := s.conn.End(); end == nil {
			return unavailable(err)
		}
	}
	s.doubtful = true
	return dbaas.WrapError(dbaas.CodeUnknown, "the outcome of the commit is not known", err)
}

// build makes the entry of what ran.
func (b *batch) build() (*dbaas.Entry, []dbaas.OpID, []byte, error) {
	s := b.s
	at := s.cfg.Now().Truncate(time.Millisecond)
	if at.Before(s.lastAt) { // the times of entries never go back, so that the horizon has a meaning.
		at = s.lastAt
	}
	entry := &dbaas.Entry{Seq: s.bounds.Head.Seq + 1, Epoch: b.epoch, At: at, Changes: b.plan.changes}
	ran := b.ran()
	ids, records := make([]dbaas.OpID, len(ran)), make([]frame.Record, len(ran))
	for n, i := range ran {
		b.results[i].Seq = entry.Seq
		ids[n] = b.ops[i].ID
		records[n] = frame.Record{Fingerprint: b.ops[i].Fingerprint, Result: b.results[i]}
	}
	encoded, err := frame.EncodeRecords(entry.Shard, records)
	if err != nil {
		return nil, nil, nil, dbaas.WrapError(dbaas.CodeTooLarge, "the batch is too large", err)
	}
	return entry, ids, encoded, nil
}
