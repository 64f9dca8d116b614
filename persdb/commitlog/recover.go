package commitlog

import (
	"context"
	"errors"

	"rideshare/internal/dbaas"
	"rideshare/internal/logkey"
	"rideshare/internal/replication"
)

// load builds the index from the log and brings the tables up to the log's end.
func (s *Store) load(ctx context.Context) error {
	b, err := s.log.Head(ctx)
	if shared, ok := s.log.(SharedLog); ok && dbaas.IsNotActive(err) {
		s.inactive.Store(true)
		b, err = shared.Look(ctx)
	}
	if err != nil {
		return err
	}
	position, err := replication.Position(s.conn)
	if err != nil {
		return err
	}
	if position.Seq < b.Trimmed || position.Seq > b.Head.Seq {
		return s.notTogether("the tables in %s are at entry %d, but the log has the entries after %d up to %d", FileName, position.Seq, b.Trimmed, b.Head.Seq)
	}
	if err = s.readIndex(ctx, b.Trimmed, b.Head.Seq); err != nil {
		return err
	}
	s.bounds, s.applied, s.synced = b, position.Seq, 0
	if err = s.sameHistory(ctx, position); err != nil {
		return err
	}
	if err = s.catchUp(ctx); err != nil {
		return err
	}
	return s.measure()
}

// notTogether returns the error for tables and a log that do not belong together.
func (s *Store) notTogether(format string, args ...any) error {
	remedy := "put both files of one backup there"
	if s.cfg.OpenLog != nil {
		remedy = "use the data folder and the log that belong together, or a copy of another stopped persdb's data folder; to begin with an empty log, use an empty data folder"
	}
	return dbaas.Errorf(dbaas.CodeInternal, format+": "+remedy, args...)
}

// checkHistory is sameHistory for the tables' present position. The caller owns the connection.
func (s *Store) checkHistory(ctx context.Context) error {
	if err := s.conn.End(); err != nil { // a step that failed may have left its transaction.
		return err
	}
	at, err := replication.Position(s.conn)
	if err != nil {
		return err
	}
	return s.sameHistory(ctx, at)
}

// sameHistory returns an error if the log has another entry at the tables' position than the tables: an operator may have let the
// log go on without its newest entries, by promote.sh --accept-loss, which begins a new epoch.
func (s *Store) sameHistory(ctx context.Context, tables dbaas.Head) error {
	if tables.Seq <= s.bounds.Trimmed {
		return nil
	}
	records, err := s.log.Read(ctx, tables.Seq-1, Limit{Records: 1, Damaged: true})
	switch {
	case dbaas.CodeOf(err) == dbaas.CodeGone: // trimmed by another process
		return nil
	case err == nil && len(records) > 0 && records[0].Damage == 0 && records[0].Entry.Epoch != tables.Epoch:
		err = s.notTogether("the tables in %s have entry %d of epoch %d, but the log's is of epoch %d", FileName, tables.Seq, tables.Epoch, records[0].Entry.Epoch)
	}
	return err
}

// each calls fn for the log's records after from, up to head. The log may have more by now.
func (s *Store) each(ctx context.Context, from, head dbaas.Seq, fn func(*Record) error) error {
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
			if r.Entry.Seq > head {
				return nil
			}
			if err = fn(r); err != nil {
				return err
			}
			from = r.Entry.Seq
		}
	}
	return nil
}

// readIndex adds the records after from, up to head, to the index. It takes mu for each record alone, since reading the
// log may take long.
func (s *Store) readIndex(ctx context.Context, from, head dbaas.Seq) error {
	return s.each(ctx, from, head, func(r *Record) error {
		s.mu.Lock()
		s.index.addRecord(r, s.cfg.Elapsed())
		s.mu.Unlock()
		if r.Damage != 0 {
			s.logDamage(ctx, r)
		}
		if r.Damage != DamagedOperations && r.Entry.At.After(s.lastAt) {
			s.lastAt = r.Entry.At
		}
		return nil
	})
}

// logDamage logs what is lost by a damaged entry.
func (s *Store) logDamage(ctx context.Context, r *Record) {
	lost := "its changes: replicas that need it take a snapshot"
	if r.Damage == DamagedOperations {
		lost = "its changes and its operations: replicas that need it take a snapshot, writes that may have been in it are refused when they come again"
	}
	s.cfg.Log.ErrorContext(ctx, "entry of the log is damaged on the disk", logkey.Seq, r.Entry.Seq, "lost", lost)
}

// catchUp applies the entries that are in the log but not in the tables. The tables are behind after a death between
// the append and the tables' COMMIT, a power failure, or a failed COMMIT. The caller owns the connection.
func (s *Store) catchUp(ctx context.Context) error {
	from := s.applied
	err := s.bringUp(ctx)
	if err == nil && from != s.applied {
		s.cfg.Log.InfoContext(ctx, "tables brought up to the log", "from", from, logkey.Seq, s.applied)
	}
	return err
}

// bringUp is catchUp without a line in the log.
func (s *Store) bringUp(ctx context.Context) error {
	if err := s.conn.End(); err != nil || s.applied == s.bounds.Head.Seq { // a step that failed may have left its transaction.
		return err
	}
	position, err := replication.Position(s.conn)
	if err == nil {
		err = s.capture.Reload()
	}
	if err != nil {
		return err
	}
	s.applied = position.Seq
	if err = s.conn.WithoutTriggers(func() error { return s.replay(ctx) }); err != nil {
		return err
	}
	return s.capture.Reload()
}

// replay applies the entries after s.applied to the tables in one transaction, as a replica does.
func (s *Store) replay(ctx context.Context) error {
	if err := s.conn.BeginWrite(); err != nil {
		return err
	}
	head := s.bounds.Head.Seq
	err := s.capture.Replay(func(apply func(dbaas.Entry) error) error {
		return s.each(ctx, s.applied, head, func(r *Record) error {
			if r.Damage != 0 {
				return dbaas.Errorf(dbaas.CodeInternal, "entry %d of the log is damaged, and the tables do not have it yet: "+
					"put a backup of both %s and %s in their place", r.Entry.Seq, FileName, LogFileName)
			}
			return apply(r.Entry)
		})
	})
	if err == nil {
		err = s.conn.Commit()
	}
	if err != nil {
		return errors.Join(err, s.conn.End())
	}
	s.applied = head
	return nil
}
