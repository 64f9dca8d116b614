package commitlog

import (
	"context"
	"slices"

	"rideshare/internal/dbaas"
)

// notAppended records, after a failed append of operations, what settle must find out before the next step.
func (s *Store) notAppended(err error, ids []dbaas.OpID) {
	switch dbaas.CodeOf(err) { //nolint:exhaustive // after the others the log is as it was.
	case dbaas.CodeUnknown:
		s.mu.Lock()
		defer s.mu.Unlock()
		s.unsettled = ids
	case dbaas.CodeStaleEpoch, dbaas.CodeConflict: // another process has written the log.
	default:
		return
	}
	s.doubtful = true
}

// notRun returns the code for operations that are not run now: CodeUnknown if an append whose outcome is unknown has one
// of them.
func (s *Store) notRun(ops []dbaas.Operation) dbaas.Code {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for i := range ops {
		if slices.Contains(s.unsettled, ops[i].ID) {
			return dbaas.CodeUnknown
		}
	}
	return dbaas.CodeUnavailable
}

// settle finds out what the log holds after a step whose outcome was unknown, or after a step of another process. It
// takes over the entries that this process did not append; catchUp applies them. The caller owns the connection.
func (s *Store) settle(ctx context.Context) error {
	b, err := s.log.Head(ctx)
	if err != nil {
		return err
	}
	return s.adopt(ctx, b)
}

// adopt adds the log's entries up to b.Head to the index and publishes b as the new bounds; it does not apply them to the
// tables. The caller owns the connection.
func (s *Store) adopt(ctx context.Context, b Bounds) (err error) {
	if b.Head.Seq < s.bounds.Head.Seq {
		return dbaas.Errorf(dbaas.CodeInternal, "the log ends at entry %d, but entry %d was stored in it: use the log that has this entry", b.Head.Seq, s.bounds.Head.Seq)
	}
	s.mu.Lock()
	s.index.forgetUpTo(b.Trimmed)
	s.mu.Unlock()
	from := s.bounds.Head.Seq
	if n := len(s.index.entries); n > 0 { // an earlier call may have failed half way.
		from = s.index.entries[n-1].seq
	}
	if err = s.readIndex(ctx, from, b.Head.Seq); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.moveTo(b)
	s.doubtful, s.unsettled = false, nil
	return nil
}

// confirm asks a shared log for its head. The log has more than this store knows if a commit is about to end here, if the
// outcome of an append is unknown, or if another process has written. confirm then waits for the commit and reads the
// rest. Otherwise an inactive process could show entries that this process does not know.
func (s *Store) confirm(ctx context.Context) error {
	b, err := s.headOfLog(ctx)
	if err != nil || s.knows(b) {
		return err
	}
	return s.write(ctx, nil, func() error {
		if s.knows(b) {
			return nil
		}
		return s.settle(ctx)
	})
}

func (s *Store) knows(b Bounds) bool {
	known := s.known()
	return b.Head.Seq <= known.Seq && b.Head.Epoch <= known.Epoch
}

// headOfLog returns the log's head. If it returns no error, no other process was active when headOfLog was called, and this
// store has every entry that others stored before: TakeOver clears inactive only after it has read and applied them.
func (s *Store) headOfLog(ctx context.Context) (Bounds, error) {
	if s.inactive.Load() {
		return Bounds{}, dbaas.ErrNotActive
	}
	b, err := s.log.Head(ctx)
	if err == nil && s.inactive.Load() {
		err = dbaas.ErrNotActive
	}
	return b, s.noteActive(ctx, err)
}

// backed returns an error unless a shared log confirms that the store knew all its entries when it answered a batch with
// no entry. Without that, a process that was paused while another one took over would answer from its old tables. The
// caller owns the connection.
func (s *Store) backed(ctx context.Context) error {
	if !s.cfg.Shared {
		return nil
	}
	b, err := s.log.Head(ctx)
	if err == nil && b.Head != s.bounds.Head {
		s.doubtful = true
		err = dbaas.Errorf(dbaas.CodeUnavailable, "another process has written the log")
	}
	return unavailableOrNil(err)
}
