package replication

import (
	"errors"
	"fmt"
	"strings"

	"rideshare/internal/dbaas"
	"rideshare/internal/readtags"
	"rideshare/internal/rowlog"
	"rideshare/internal/sqlite"
)

// Errors that callers check for.
var (
	// ErrDiverged is returned by Applier when a change does not fit the replica's rows or tables. The file does not match
	// the log and must be discarded.
	ErrDiverged = errors.New("replica has diverged")
	// ErrNotNext is returned by Applier for an entry that does not directly follow the position, or whose epoch is older
	// than the position's.
	ErrNotNext = errors.New("entry is not the next one")
)

// Applier applies entries to a replica. Only the goroutine that uses the connection may use its Applier.
type Applier struct{ *schema }

// NewApplier returns an Applier on c. Foreign keys, triggers and CHECK constraints must be off on c: the log already has
// the rows that the first two changed, and its rows have passed the checks.
func NewApplier(c *sqlite.Conn) *Applier { return &Applier{&schema{c: c}} }

// Apply applies entry e inside the caller's open transaction, and moves the position to e. Several entries may share
// one transaction.
//
// After an error the caller must roll the transaction back. ErrNotNext: e is not the entry after the position, or its
// epoch is older than the position's. ErrDiverged: a change does not fit, so this file does not match the log. Any
// other error concerns the file itself, such as a full disk.
func (p *Applier) Apply(e dbaas.Entry) error {
	if err := p.advance(e); err != nil {
		return err
	}
	for i, change := range e.Changes {
		var err error
		switch change.Kind {
		case dbaas.ChangeSchema:
			err = diverged(p.c.ChangeSchema(string(change.Data)))
		case dbaas.ChangeRows:
			err = p.applyRows(change.Data)
		case dbaas.ChangeFeed: // for consumers of the change feed
		case dbaas.ChangeSet:
			err = fmt.Errorf("%w: an older version made the change", ErrDiverged)
		}
		if err != nil {
			return fmt.Errorf("apply entry %d, part %d: %w", e.Seq, i, err)
		}
	}
	return nil
}

func (p *Applier) advance(e dbaas.Entry) error {
	err := p.c.Exec("UPDATE rs_applied SET seq=?1, epoch=?2 WHERE seq=?1-1 AND epoch<=?2",
		dbaas.Integer(int64(e.Seq)), dbaas.Integer(int64(e.Epoch)))
	if err != nil {
		return fmt.Errorf("move position to %d: %w", e.Seq, err)
	}
	if p.c.Changes() == 0 {
		return fmt.Errorf("entry %d of epoch %d: %w", e.Seq, e.Epoch, ErrNotNext)
	}
	return nil
}

// diverged wraps an error as ErrDiverged if it proves that the replica's rows or tables differ from those that the
// change was made from.
func diverged(err error) error {
	switch dbaas.CodeOf(err) { //nolint:exhaustive // all other codes are the file's own.
	case dbaas.CodeInvalid, dbaas.CodeConstraint:
		return fmt.Errorf("%w: %w", ErrDiverged, err)
	}
	return err
}

// applier applies the records of one part of an entry.
type applier struct {
	c      *sqlite.Conn
	tables map[string]*table
	table  *table // the table of the next records
	args   []dbaas.Value
}

func (p *Applier) applyRows(changes []byte) error {
	tables, err := p.load()
	if err != nil {
		return err
	}
	a := applier{c: p.c, tables: tables}
	r := rowlog.NewReader(changes)
	for len(r.Rest) > 0 {
		if err := a.record(&r); err != nil {
			return err
		}
		if r.Bad {
			return rowlog.ErrMalformed
		}
	}
	return nil
}

func (a *applier) record(r *rowlog.Reader) error {
	op := r.Byte()
	switch op {
	case rowlog.Table:
		return a.use(r)
	case rowlog.Empty:
		return diverged(a.c.ExecOnce("DELETE FROM " + QuoteName(r.Text())))
	case rowlog.Sequence:
		return a.applySequences(r)
	case readtags.RecordTouched:
		r.Bytes()
		return nil
	}
	if a.table == nil {
		return rowlog.ErrMalformed
	}
	a.args = a.args[:0]
	switch op {
	case rowlog.Insert:
		return a.insert(r)
	case rowlog.Update:
		return a.update(r)
	case rowlog.Delete:
		return a.delete(r)
	default:
		return rowlog.ErrMalformed
	}
}

func (a *applier) use(r *rowlog.Reader) error {
	name, columns, withoutRowid := r.Text(), r.Uint(), r.Byte()
	if r.Bad {
		return rowlog.ErrMalformed
	}
	t := a.tables[name]
	if t == nil || uint64(len(t.columns)) != columns || t.withoutRowid != (withoutRowid == 1) {
		return fmt.Errorf("%w: table %s is missing or has other columns", ErrDiverged, name)
	}
	a.table = t
	return nil
}

func (a *applier) bind(r *rowlog.Reader) {
	v, _ := r.Value()
	a.args = append(a.args, v)
}

// identity binds the values that identify a row.
func (a *applier) identity(r *rowlog.Reader) {
	if !a.table.withoutRowid {
		a.args = append(a.args, dbaas.Integer(r.Int()))
		return
	}
	for range a.table.key {
		a.bind(r)
	}
}

// run runs one statement, which must change exactly one row.
func (a *applier) run(r *rowlog.Reader, sql string) error {
	if r.Bad {
		return rowlog.ErrMalformed
	}
	if err := a.c.Exec(sql, a.args...); err != nil {
		return diverged(err)
	}
	if a.c.Changes() != 1 {
		return fmt.Errorf("%w: a row of %s is not there or is another one", ErrDiverged, a.table.name)
	}
	return nil
}

func (a *applier) insert(r *rowlog.Reader) error {
	t := a.table
	if !t.withoutRowid {
		a.args = append(a.args, dbaas.Integer(r.Int()))
	}
	for range t.columns {
		a.bind(r)
	}
	return a.run(r, t.insertSQL())
}

// insertSQL caches its result: replicas run this statement most.
func (t *table) insertSQL() string {
	if t.insert != "" {
		return t.insert
	}
	var names []string
	if !t.withoutRowid {
		names = append(names, QuoteName(t.rowid))
	}
	for _, name := range t.columns {
		names = append(names, QuoteName(name))
	}
	// OR ABORT: otherwise a conflict clause of the table would hide that a row does not fit.
	t.insert = fmt.Sprintf("INSERT OR ABORT INTO %s(%s) VALUES(?%s)", QuoteName(t.name), strings.Join(names, ","), strings.Repeat(",?", len(names)-1))
	return t.insert
}

func (a *applier) delete(r *rowlog.Reader) error {
	a.identity(r)
	if a.table.remove == "" {
		a.table.remove = "DELETE FROM " + QuoteName(a.table.name) + " WHERE " + a.table.where()
	}
	return a.run(r, a.table.remove)
}

// update changes the changed columns of the row that has the old values in the record.
func (a *applier) update(r *rowlog.Reader) error {
	t := a.table
	a.identity(r)
	var set []string
	checks := []string{t.where()}
	if !t.withoutRowid {
		if id := r.Int(); id != a.args[0].Int {
			a.args = append(a.args, dbaas.Integer(id))
			set = append(set, fmt.Sprintf("%s=?%d", QuoteName(t.rowid), len(a.args)))
		}
	}
	for place := r.Uint(); place != 0; place = r.Uint() {
		if place > uint64(len(t.columns)) {
			return rowlog.ErrMalformed
		}
		name := QuoteName(t.columns[place-1])
		if old, known := r.Value(); known {
			a.args = append(a.args, old)
			// In this form the planner does not consider the condition for an index: with many of them it would take many seconds.
			checks = append(checks, fmt.Sprintf("NOT %s IS NOT ?%d", name, len(a.args)))
		}
		a.bind(r)
		set = append(set, fmt.Sprintf("%s=?%d", name, len(a.args)))
	}
	if r.Bad || len(set) == 0 {
		return rowlog.ErrMalformed
	}
	sql := "UPDATE OR ABORT " + QuoteName(t.name) + " SET " + strings.Join(set, ",") + " WHERE " + all(checks)
	return a.run(r, sql)
}
