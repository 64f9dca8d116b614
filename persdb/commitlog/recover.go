package commitlog

import (
	"context"
	"errors"
	"fmt"

	"rideshare/internal/dbaas"
)

// load brings the database up to the log and derives the index from it.
func (s *Store) load(ctx context.Context) error {
	b, err := s.log.Head(ctx)
	if err != nil {
		return err
	}
	s.bounds = b
	position, err := s.conn.Position()
	if err != nil {
		return err
	}
	if position.Seq < b.Trimmed || position.Seq > b.Head.Seq {
		return dbaas.Errorf(dbaas.CodeInternal, "the database is at %d, its log goes from %d to %d", position.Seq, b.Trimmed, b.Head.Seq)
	}
	return s.catchUp(ctx, b.Trimmed, position.Seq, b.Head.Seq)
}

// catchUp reads the log after from, up to head, into the index, and applies what
// is after applied to the database: a log outside the file can be ahead of it.
func (s *Store) catchUp(ctx context.Context, from, applied, head dbaas.Seq) error {
	for from < head {
		records, err := s.log.Read(ctx, from, Limit{Records: 4096, Bytes: 8 << 20})
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
			if err := s.index.addRecord(r); err != nil {
				return fmt.Errorf("operations of entry %d: %w", r.Entry.Seq, err)
			}
			if r.Entry.Seq > applied {
				if err := s.replay(r.Entry); err != nil {
					return err
				}
			}
			from = r.Entry.Seq
			if r.Entry.At.After(s.lastAt) {
				s.lastAt = r.Entry.At
			}
		}
	}
	return nil
}

// replay applies an entry that the log has and the database has not, as a replica does.
func (s *Store) replay(e dbaas.Entry) error {
	return s.conn.AsReplica(func() error {
		if err := s.conn.BeginWrite(); err != nil {
			return err
		}
		if err := s.conn.Apply(e); err != nil {
			return errors.Join(err, s.conn.End())
		}
		return s.conn.Commit()
	})
}

// settle finds out what became of a commit whose outcome was not known.
func (s *Store) settle(ctx context.Context) error {
	if err := s.conn.End(); err != nil {
		return err
	}
	b, err := s.log.Head(ctx)
	if err != nil {
		return err
	}
	position, err := s.conn.Position()
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.catchUp(ctx, s.bounds.Head.Seq, position.Seq, b.Head.Seq); err != nil {
		return err
	}
	s.moveTo(b)
	s.doubtful = false
	return nil
}
