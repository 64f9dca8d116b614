package commitlog

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/logkey"
	"rideshare/internal/replication"
	"rideshare/internal/sqlite"
	"rideshare/internal/wait"
)

// Archive configures a log that an archiver copies elsewhere; see Config.Archive. Entries that the archive lacks are
// not trimmed until they exceed Backlog bytes or the disk has less than 1 GiB free.
type Archive struct {
	// Backlog is how many bytes of entries may wait for the archive.
	Backlog int64
	// Stop decides what happens then. If set, writes are refused with CodeFull. If not, the oldest entries are trimmed,
	// but only those beyond the retention bounds; the archive then has a gap.
	Stop bool
}

// archiveFree is the free disk space in bytes below which entries are no longer kept for the archive.
const archiveFree = 1 << 30

// archiveState is what the store knows about the archive. It is guarded by mu.
type archiveState struct {
	seq     dbaas.Seq // the archive has every entry of the log up to here
	held    bool      // the retention bounds would trim entries that the archive lacks
	short   bool      // at the last check the disk had less than archiveFree
	full    bool      // the last write was refused because the archive lags behind
	gaps    int64
	refused error // if not nil, all writes are refused for this reason until the process ends
}

// ArchiveState is the state of the log for an archiver and its metrics.
type ArchiveState struct {
	Cluster dbaas.ClusterID
	Head    dbaas.Seq
	Trimmed dbaas.Seq
	// Archived is the seq that was last passed to Store.Archived; 0 at first.
	Archived dbaas.Seq
	// Backlog is the total size in bytes of the entries that the archive lacks. Lag is how long ago this process first
	// saw the oldest of them.
	Backlog int64
	Lag     time.Duration
	// Gaps counts how often this process began to trim entries that the archive lacked.
	Gaps int64
	// Refusing reports whether writes are refused because of the archive.
	Refusing bool
}

// ArchiveState returns the present state. It does not wait for commits.
func (s *Store) ArchiveState() ArchiveState {
	s.mu.RLock()
	defer s.mu.RUnlock()
	a := &s.archive
	state := ArchiveState{
		Cluster: s.cluster, Head: s.bounds.Head.Seq, Trimmed: s.bounds.Trimmed,
		Archived: a.seq, Backlog: s.index.after(a.seq), Gaps: a.gaps, Refusing: a.refused != nil || s.archiveFull(),
	}
	if oldest := s.index.firstAfter(a.seq); oldest != nil {
		state.Lag = s.cfg.Elapsed() - oldest.met
	}
	return state
}

// Archived sets the position up to which the archive has the entries of the log, or can never get them. These may be trimmed;
// all later entries are kept for the archive. A lower seq than before means that the archive has lost entries.
func (s *Store) Archived(seq dbaas.Seq) {
	s.mu.Lock()
	a := &s.archive
	a.seq = seq
	held := a.held
	a.held = false
	s.mu.Unlock()
	if held { // entries wait to be trimmed.
		select {
		case s.tooLong <- struct{}{}:
		default: // a token is already there.
		}
	}
}

// RefuseWrites makes every later write with an unknown id fail with CodeUnavailable until the process ends. It is
// called when the archive and this log have different histories.
func (s *Store) RefuseWrites(reason error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.archive.refused = dbaas.WrapError(dbaas.CodeUnavailable, "the archive has another history than this database", reason)
}

// archiveFull reports whether writes are refused until the archive catches up. The caller holds mu.
func (s *Store) archiveFull() bool {
	a := &s.archive
	return s.cfg.Archive != nil && s.cfg.Archive.Stop && (s.index.after(a.seq) > s.cfg.Archive.Backlog || a.held && a.short)
}

// errArchiveFull marks a refusal because of the archive: the disk is not full. It is not a *dbaas.Error, because errors.Is
// treats all of those with the same code as equal.
var errArchiveFull = errors.New("the archive lacks the oldest entries")

// archiveRefusal returns an error if writes are refused because of the archive. The caller owns the connection.
func (s *Store) archiveRefusal(ctx context.Context) error {
	if s.cfg.Archive == nil {
		return nil
	}
	short := s.reserve.free() < archiveFree
	s.mu.Lock()
	defer s.mu.Unlock()
	a := &s.archive
	if a.refused != nil {
		return a.refused
	}
	was := a.full
	a.short = short
	a.full = s.archiveFull()
	if a.full && !was {
		s.cfg.Log.ErrorContext(ctx, "writes are refused until the archive has the oldest entries of the log", logkey.Bytes, s.index.after(a.seq))
	}
	if !a.full && was {
		s.cfg.Log.InfoContext(ctx, "the archive goes on, writes are taken")
	}
	if a.full {
		return dbaas.WrapError(dbaas.CodeFull, "the archive does not take the log, and persdb has no room for more of it", errArchiveFull)
	}
	return nil
}

// trimmableNow returns how many of the oldest entries may be trimmed in one chunk, and whether the archive lacks them.
// The caller owns the connection.
func (s *Store) trimmableNow() (n int, gap bool) {
	x := &s.index // only the holder of the writing token changes it.
	some := x.entries[:min(len(x.entries), trimChunk+1)]
	n = s.cfg.Retain.trimmable(some, x.ops, x.bytes, s.cfg.Elapsed())
	if n == 0 || s.cfg.Archive == nil {
		return n, false
	}
	short := s.reserve.free() < archiveFree
	s.mu.Lock()
	defer s.mu.Unlock()
	archived := 0
	if a := s.archive.seq; a >= some[0].seq {
		archived = int(min(a-some[0].seq+1, dbaas.Seq(n)))
	}
	s.archive.held, s.archive.short = archived < n, short
	if archived > 0 {
		return archived, false
	}
	room := s.cfg.Archive.Backlog
	if short {
		room = 0
	}
	if s.cfg.Archive.Stop || x.after(s.archive.seq) <= room {
		return 0, false
	}
	over := 0
	for over < n && x.after(some[over].seq) > room {
		over++
	}
	return min(n, over+1), true
}

// noteGap counts and logs a gap when the first of its entries is trimmed. The caller holds mu and has not yet updated
// bounds.
func (s *Store) noteGap(ctx context.Context) {
	if s.bounds.Trimmed <= s.archive.seq || s.archive.gaps == 0 {
		s.archive.gaps++
		s.cfg.Log.ErrorContext(ctx, "entries were trimmed that the archive lacks, positions from here to its next snapshot cannot be restored",
			logkey.Seq, s.bounds.Trimmed+1)
	}
}

// Records returns consecutive records after a position for the archive, at least one if any exists. dbaas.ErrGone means
// that the record after the position was trimmed, CodeDamaged that it is damaged.
func (s *Store) Records(ctx context.Context, after dbaas.Seq, bytes int) ([]Record, error) {
	head := s.known()
	if head.Seq <= after {
		return nil, nil
	}
	records, err := s.log.Read(ctx, after, Limit{Records: pageEntries, Bytes: bytes})
	if err != nil {
		return nil, unread(err)
	}
	for len(records) > 0 && records[len(records)-1].Entry.Seq > head.Seq { // not published yet
		records = records[:len(records)-1]
	}
	return records, nil
}

// Copy is a copy of the tables' file as of one entry.
type Copy struct {
	Head dbaas.Head
	At   time.Time // of entry Head.Seq; zero at position 0
	// Tables are the hashes of its contents, as Hashes returns them.
	Tables map[string]string
	Bytes  int64
	// Body is the file, with the tables of the application and of the system. The caller closes it.
	Body io.ReadCloser
}

// Copy copies the tables for the archive as Backup does. CodeDamaged means that rows of a table differ from those that
// were committed.
func (s *Store) Copy(ctx context.Context) (*Copy, error) {
	dir, release, err := s.backupSpace()
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, FileName)
	made := &Copy{}
	made.Head, err = s.copyTo(ctx, path, func(h dbaas.Head) (err error) { // The log may be trimmed during the copy.
		made.At, err = s.timeOf(ctx, h.Seq)
		return err
	})
	if err == nil {
		made.Tables, err = hashesOf(ctx, path)
	}
	var body io.ReadCloser
	if err == nil {
		body, made.Bytes, err = openSized(path)
	}
	if err != nil {
		release()
		return nil, err
	}
	made.Body = &backupBody{ReadCloser: body, release: release}
	return made, nil
}

// timeOf returns the time of an entry, or zero for position 0.
func (s *Store) timeOf(ctx context.Context, seq dbaas.Seq) (time.Time, error) {
	if seq == 0 {
		return time.Time{}, nil
	}
	records, err := s.log.Read(ctx, seq-1, Limit{Records: 1, NoChanges: true})
	if err == nil && len(records) == 0 {
		err = dbaas.Errorf(dbaas.CodeInternal, "the log has no entry %d", seq)
	}
	if err != nil {
		return time.Time{}, unread(err)
	}
	return records[0].Entry.At, nil
}

// hashesOf returns the content hashes of a copy. It uses about half of a core.
func hashesOf(ctx context.Context, path string) (tables map[string]string, err error) {
	c, err := sqlite.Open(path, sqlite.Options{ReadOnly: true, Scan: true})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	turns := wait.NewTurns()
	err = c.Within(ctx, func() error {
		if begun := c.Begin(); begun != nil {
			return begun
		}
		all, damage, hashed := replication.HashesAndDamage(c, func() { turns.Rest(ctx) })
		if hashed == nil && len(damage) > 0 {
			hashed = dbaas.Errorf(dbaas.CodeDamaged, "tables %s have other rows than those that were committed", strings.Join(damage, ", "))
		}
		tables = all
		return errors.Join(hashed, c.End())
	})
	return tables, err
}
