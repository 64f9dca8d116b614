package commitlog

import (
	"context"
	"errors"

	"rideshare/internal/dbaas"
	"rideshare/internal/logkey"
	"rideshare/internal/replication"
)

// load brings the database up to the end of the log and builds the index from the log.
func (s *Store) load(ctx context.Context) error {
	b, err := s.log.Head(ctx)
	if err != nil {
		return err
	}
	s.bounds = b
	position, err := replication.Position(s.conn)
	if err != nil {
		return err
	}
	if position.Seq < b.Trimmed || position.Seq > b.Head.Seq {
		return dbaas.Errorf(dbaas.CodeInternal, "the database is at %d, its log goes from %d to %d", position.Seq, b.Trimmed, b.Head.Seq)
	}
	if err = s.catchUp(ctx, b.Trimmed, position.Seq, b.Head.Seq); err != nil {
		return err
	}
	return s.measure()
}

// catchUp reads the log after from, up to head, into the index. It applies the entries after applied to the database: a
// log outside the file can be ahead of it.
func (s *Store) catchUp(ctx context.Context, from, applied, head dbaas.Seq) error {
	for from < head {
		records, err := s.log.Read(ctx, from, Limit{Records: 4096, Bytes: 8 << 20, Damaged: true})
		if err != nil {
			return err
		}
		if len(records) == 0 {
			return dbaas.Errorf(dbaas.CodeInternal, "the log ends at %d, its head is %d", from, head)
		}
		for i := range records {
			r := &records[i]
			if r.Entry.Seq != from+1 {
				return dbaas.Errorf(dbaas.CodeInternal, "the log has %d after %d", r.Entry.Seq, from)
			}
			s.index.addRecord(r, s.cfg.Elapsed())
			if r.Damage != 0 {
				s.tellDamage(ctx, r)
			}
			if r.Entry.Seq > applied {
				if err := s.replay(r); err != nil {
					return err
				}
			}
			from = r.Entry.Seq
			if r.Damage != DamagedOperations && r.Entry.At.After(s.lastAt) {
				s.lastAt = r.Entry.At
			}
		}
	}
	return nil
}

// tellDamage logs what is lost by a damaged entry that the database has already applied.
func (s *Store) tellDamage(ctx context.Context, r *Record) {
	lost := "its changes: replicas that need it take a snapshot"
	if r.Damage == DamagedOperations {
		lost = "its changes and its operations: replicas that need it take a snapshot, writes that may have been in it are refused when they come again"
	}
	s.cfg.Log.ErrorContext(ctx, "entry of the log is damaged on the disk", logkey.Seq, r.Entry.Seq, "lost", lost)
}

// replay applies an entry of the log that the database lacks, as a replica does.
func (s *Store) replay(r *Record) error {
	if r.Damage != 0 {
		return errDamaged(r.Entry.Seq)
	}
	return s.conn.WithoutTriggers(func() error {
		if err := s.conn.BeginWrite(); err != nil {
			return err
		}
		if err := s.capture.Replay(r.Entry); err != nil {
			return errors.Join(err, s.conn.End())
		}
		if err := s.conn.Commit(); err != nil {
			return err
		}
		return s.capture.Reload()
	})
}

// resolveDoubtful determines the outcome of a commit, claim or trim whose outcome was unknown.
func (s *Store) resolveDoubtful(ctx context.Context) error {
	if err := s.conn.End(); err != nil {
		return err
	}
	b, err := s.log.Head(ctx)
	if err != nil {
		return err
	}
	position, err := replication.Position(s.conn)
	if err == nil {
		err = s.capture.Reload()
	}
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.index.forgetUpTo(b.Trimmed)
	if err := s.catchUp(ctx, s.bounds.Head.Seq, position.Seq, b.Head.Seq); err != nil {
		return err
	}
	s.moveTo(b)
	s.doubtful = false
	return s.measure()
}
