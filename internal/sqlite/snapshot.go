package sqlite

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"rideshare/internal/dbaas"
)

// Snapshot is a database file that is generated while it is read. It contains tables of a live file, all of one moment.
// It contains nothing of the other tables, not even in the unused parts of its pages.
//
// The engine creates a template with the same schema and no rows. The template is followed by the pages of the tables'
// and indexes' trees. Pages are renumbered in the order in which they are met, so that the snapshot is read from start
// to end and has no free pages. docs/adr/0002 gives the reasons.
//
// Writers of the live file are not blocked, but its WAL grows until Close. One goroutine may use a Snapshot at a time.
type Snapshot struct {
	source   *Conn
	pages    *Stmt
	template []byte
	roots    map[uint32]uint32 // page of the template -> its root in the live file
	tree     renumbering
	size     int    // bytes of a page
	usable   int    // size without the bytes reserved at a page's end
	emitted  uint32 // pages made so far
	page     []byte // the page being made
	rest     []byte // the unread part of page
}

// snapshotCache is the page cache of a connection that reads each page once.
const snapshotCache = 2 << 20

// errDamaged is returned for a page that violates the file format.
var errDamaged = &dbaas.Error{Code: dbaas.CodeInternal, Message: "database file is damaged: a page is not what the file format says"}

// SnapshotOptions says what a snapshot contains.
type SnapshotOptions struct {
	// Table reports whether a table is copied, with its indexes and triggers. It is also asked about views.
	Table func(name string) bool
	// Begun is called with a connection that sees the snapshot's state. An error ends the snapshot.
	Begun func(*Conn) error
}

// OpenSnapshot begins a snapshot of the live file at path. The template is created at scratch, which must not exist, and
// removed again. Errors are those of Open and of o.Begun, and CodeInternal for a file that is damaged or of another
// format.
func OpenSnapshot(path, scratch string, o SnapshotOptions) (*Snapshot, error) {
	c, err := Open(path, Options{ReadOnly: true, CacheBytes: snapshotCache})
	if err != nil {
		return nil, fmt.Errorf("snapshot: %w", err)
	}
	s := &Snapshot{source: c}
	if err = s.open(scratch, o); err != nil {
		return nil, fmt.Errorf("snapshot: %w", errors.Join(err, s.Close()))
	}
	return s, nil
}

// Close ends the snapshot, whether or not it was read to its end. A second call does nothing.
func (s *Snapshot) Close() error {
	if s.source == nil {
		return nil
	}
	err := errors.Join(s.source.End(), s.source.Close())
	s.source = nil
	return err
}

func (s *Snapshot) open(scratch string, o SnapshotOptions) error {
	err := s.source.Begin()
	if err != nil {
		return err
	}
	if err = o.Begun(s.source); err != nil {
		return err
	}
	if s.pages, err = s.source.Prepare("SELECT data FROM sqlite_dbpage('main') WHERE pgno=?", nil); err != nil {
		return err
	}
	if err = s.makeTemplate(scratch, o.Table); err != nil {
		return fmt.Errorf("make template: %w", err)
	}
	return s.fit()
}

// fit checks that the two files' formats match, so that pages of one are valid in the other.
func (s *Snapshot) fit() error {
	live := make([]byte, fileHeader)
	if err := s.load(1, live); err != nil {
		return err
	}
	own := s.template[:fileHeader]
	for _, at := range [][2]int{{atPageSize, 2}, {atReserved, 1}, {atFormat, 4}, {atEncoding, 4}} {
		if from, to := at[0], at[0]+at[1]; !bytes.Equal(own[from:to], live[from:to]) {
			return dbaas.Errorf(dbaas.CodeInternal, "the database file's format differs from the snapshot's at byte %d", from)
		}
	}
	s.size = int(binary.BigEndian.Uint16(own[atPageSize:]))
	if s.size == 1 { // 65536, by the file format.
		s.size = 1 << 16
	}
	s.usable = s.size - int(own[atReserved])
	s.page = make([]byte, s.size)
	// The number of pages is not known yet. Zero means: as many as the file's length says.
	clear(s.template[atPages : atPages+4])
	s.tree.last = uint32(len(s.template) / s.size) //nolint:gosec // a few pages.
	s.tree.lock = uint32(lockByte/s.size) + 1      //nolint:gosec // a page number.
	return s.source.Query("PRAGMA page_count", func(r Row) error {
		s.tree.limit = uint32(r.Int(0)) //nolint:gosec // SQLite's page numbers.
		return nil
	})
}

// makeTemplate lets the engine create a file with the schema, and finds the tree roots in both files.
func (s *Snapshot) makeTemplate(path string, copied func(table string) bool) error {
	objects, err := s.source.objects(copied)
	if err != nil {
		return err
	}
	own, err := s.writeTemplate(path, objects)
	if err = errors.Join(err, s.readTemplate(path)); err != nil {
		return err
	}
	live, err := s.source.roots()
	if err != nil {
		return err
	}
	s.roots = make(map[uint32]uint32, len(own))
	for name, page := range own {
		if s.roots[page] = live[name]; live[name] == 0 {
			return dbaas.Errorf(dbaas.CodeInternal, "%s has no pages in the database file", name)
		}
	}
	return nil
}

// readTemplate reads the file into memory and removes it.
func (s *Snapshot) readTemplate(path string) (err error) {
	s.template, err = os.ReadFile(path) //nolint:gosec // a file of ours.
	return errors.Join(err, os.Remove(path))
}

// writeTemplate creates the file and returns the roots of its trees.
func (s *Snapshot) writeTemplate(path string, objects []object) (roots map[string]uint32, err error) {
	c, err := Open(path, Options{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	// A single plain file without a WAL, so that it can be read directly.
	if err = c.ExecOnce("PRAGMA journal_mode=DELETE"); err != nil {
		return nil, err
	}
	if err = c.BeginWrite(); err != nil {
		return nil, err
	}
	for _, o := range objects {
		if err = c.ExecOnce(o.sql); err != nil {
			return nil, fmt.Errorf("create %s %s: %w", o.kind, o.name, err)
		}
	}
	if err = s.copySequence(c); err != nil {
		return nil, err
	}
	if roots, err = c.roots(); err != nil {
		return nil, err
	}
	return roots, c.Commit()
}

// object is one row of the schema table.
type object struct{ kind, name, sql string }

// objects returns the schema objects of a snapshot, in an order in which they can be created.
func (c *Conn) objects(copied func(table string) bool) ([]object, error) {
	var objects []object
	err := c.Query(`SELECT type, name, sql, tbl_name FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite!_%' ESCAPE '!'
		ORDER BY type='trigger', type='view', type='index', rowid`,
		func(r Row) error {
			if copied(r.Text(3)) {
				objects = append(objects, object{r.Text(0), r.Text(1), r.Text(2)})
			}
			return nil
		})
	if err != nil {
		return nil, fmt.Errorf("read schema: %w", err)
	}
	return objects, nil
}

// roots returns the first page of each table and index, including the engine's own indexes, whose pages a snapshot
// copies from the live file. It leaves out sqlite_sequence, which also has rows of internal tables.
func (c *Conn) roots() (map[string]uint32, error) {
	roots := map[string]uint32{}
	err := c.Query("SELECT name, rootpage FROM sqlite_master WHERE rootpage>0 AND name<>'sqlite_sequence'", func(r Row) error {
		roots[r.Text(0)] = uint32(r.Int(1)) //nolint:gosec // SQLite's page numbers.
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read first pages: %w", err)
	}
	return roots, nil
}

// copySequence copies the next AUTOINCREMENT values, which are in a table that only the engine can create.
func (s *Snapshot) copySequence(to *Conn) error {
	found := false
	err := to.Query("SELECT 1 FROM sqlite_master WHERE name='sqlite_sequence'", func(Row) error {
		found = true
		return nil
	})
	rows, read := s.source.Counters()
	if err = errors.Join(err, read); err != nil || len(rows) == 0 {
		return err
	}
	if !found { // the engine creates the table with the first table that needs it, and keeps it.
		err = errors.Join(to.ExecOnce("CREATE TABLE rs_counted(id INTEGER PRIMARY KEY AUTOINCREMENT)"), to.ExecOnce("DROP TABLE rs_counted"))
	}
	for id, row := range rows {
		if err == nil {
			err = to.AddCounter(id, row)
		}
	}
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
			s.rest = s.page
		}
		taken := copy(p[n:], s.rest)
		s.rest = s.rest[taken:]
		n += taken
	}
	return n, nil
}

// next generates the next page of the file.
func (s *Snapshot) next() error {
	number := s.emitted + 1
	switch {
	case int(s.emitted)*s.size < len(s.template):
		if err := s.fromTemplate(number); err != nil {
			return err
		}
	case len(s.tree.waiting) == 0:
		return io.EOF
	case number == s.tree.lock:
		clear(s.page)
	default:
		if err := s.fromTree(s.tree.pop()); err != nil {
			return err
		}
	}
	s.emitted = number
	return nil
}

func (s *Snapshot) fromTemplate(number uint32) error {
	if root, ok := s.roots[number]; ok {
		return s.fromTree(visit{page: root})
	}
	copy(s.page, s.template[int(number-1)*s.size:])
	return nil
}

func (s *Snapshot) fromTree(v visit) error {
	if err := s.load(v.page, s.page); err != nil {
		return err
	}
	b := btreePage{page: s.page[:s.usable], renumbering: &s.tree}
	if v.payload > 0 {
		return b.overflow(v.payload)
	}
	return b.renumber()
}

// load reads the start of a page of the live file, in the transaction's state.
func (s *Snapshot) load(number uint32, to []byte) error {
	defer s.pages.reset()
	if err := s.pages.bind([]dbaas.Value{dbaas.Integer(int64(number))}, nil); err != nil {
		return err
	}
	found, err := s.pages.step()
	if err != nil {
		return fmt.Errorf("read page %d: %w", number, err)
	}
	if !found || copy(to, s.pages.blob(0)) != len(to) {
		return errDamaged
	}
	return nil
}
