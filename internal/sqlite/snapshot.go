package sqlite

import (
	"errors"
	"fmt"
	"io"

	"rideshare/internal/dbaas"
)

// Snapshot reads a live database file page by page, as one plain file in its state at one moment. The pages are those
// of the file, free ones included, so row ids and counters are the same. docs/adr/0005 gives the reasons.
//
// Writers of the live file are not blocked, but its WAL grows until Close. One goroutine may use a Snapshot at a time.
type Snapshot struct {
	source *Conn
	pages  *Stmt
	count  int64 // pages of the file
	read   int64 // pages read so far
	page   [PageSize]byte
	rest   []byte // the unread part of page
}

// snapshotCache is the page cache of a connection that reads each page once.
const snapshotCache = 2 << 20

// OpenSnapshot begins a snapshot of the live file at path. It calls begun with a connection that sees the snapshot's
// state. An error of begun ends the snapshot and is returned. Other errors are those of opening and reading the file.
func OpenSnapshot(path string, begun func(*Conn) error) (*Snapshot, error) {
	c, err := Open(path, Options{ReadOnly: true, Scan: true, CacheBytes: snapshotCache})
	if err != nil {
		return nil, fmt.Errorf("snapshot: %w", err)
	}
	s := &Snapshot{source: c}
	if err = s.open(begun); err != nil {
		return nil, fmt.Errorf("snapshot: %w", errors.Join(err, s.Close()))
	}
	return s, nil
}

func (s *Snapshot) open(begun func(*Conn) error) error {
	err := s.source.Begin()
	if err != nil {
		return err
	}
	if err = begun(s.source); err != nil {
		return err
	}
	if err = s.source.Query("PRAGMA page_count", func(r Row) error { s.count = r.Int(0); return nil }); err != nil {
		return err
	}
	s.pages, err = s.source.Prepare("SELECT data FROM sqlite_dbpage('main') WHERE pgno=?", nil)
	return err
}

// Bytes returns the size of the whole copy.
func (s *Snapshot) Bytes() int64 { return s.count * PageSize }

// Close ends the snapshot, whether or not it was read to its end. A second call does nothing.
func (s *Snapshot) Close() error {
	if s.source == nil {
		return nil
	}
	err := errors.Join(s.source.End(), s.source.Close())
	s.source = nil
	return err
}

// Read implements io.Reader. After an error other than io.EOF the snapshot is unusable.
func (s *Snapshot) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) {
		if len(s.rest) == 0 {
			if err := s.next(); err != nil {
				return n, err
			}
		}
		taken := copy(p[n:], s.rest)
		s.rest = s.rest[taken:]
		n += taken
	}
	return n, nil
}

// next reads the next page in the state that the transaction sees.
func (s *Snapshot) next() error {
	if s.read == s.count {
		return io.EOF
	}
	number := s.read + 1
	defer s.pages.reset()
	if err := s.pages.bind([]dbaas.Value{dbaas.Integer(number)}); err != nil {
		return err
	}
	found, err := s.pages.step()
	if err != nil {
		return fmt.Errorf("read page %d: %w", number, err)
	}
	if !found || copy(s.page[:], s.pages.blob(0)) != PageSize {
		return dbaas.Errorf(dbaas.CodeInternal, "database file is damaged: page %d is missing or not of %d bytes", number, PageSize)
	}
	s.read, s.rest = number, s.page[:]
	return nil
}
