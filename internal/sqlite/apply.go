package sqlite

import (
	"fmt"

	"rideshare/internal/dbaas"

	"modernc.org/libc"
	"modernc.org/libc/sys/types"
	lib "modernc.org/sqlite/lib"
)

// Apply applies entry e to a replica, inside the transaction that the caller has
// open, and moves the position to e. Several entries may share one transaction.
//
// After an error the caller must end the transaction without committing. ErrNotNext: e is not the entry
// after the position, or its epoch is older. ErrDiverged: a change does not fit, so this file is no
// prefix of the log. Any other error is the file's own, as a full disk.
func (c *Conn) Apply(e dbaas.Entry) error {
	if err := c.advance(e); err != nil {
		return err
	}
	for i, change := range e.Changes {
		var err error
		if change.Kind == dbaas.ChangeSchema {
			err = c.applySchema(string(change.Data))
		} else {
			err = c.applyRows(change.Data)
		}
		if err != nil {
			return fmt.Errorf("apply entry %d, part %d: %w", e.Seq, i, err)
		}
	}
	return nil
}

func (c *Conn) advance(e dbaas.Entry) error {
	err := c.Exec("UPDATE rs_applied SET seq=?1, epoch=?2 WHERE seq=?1-1 AND epoch<=?2",
		dbaas.Integer(int64(e.Seq)), dbaas.Integer(int64(e.Epoch))) //nolint:gosec // SQLite's integers end at 2^63.
	if err != nil {
		return fmt.Errorf("move position to %d: %w", e.Seq, err)
	}
	if lib.Xsqlite3_changes64(c.tls, c.db) == 0 {
		return fmt.Errorf("entry %d of epoch %d: %w", e.Seq, e.Epoch, ErrNotNext)
	}
	return nil
}

func (c *Conn) applySchema(sql string) error {
	c.tables = nil
	if err := c.once(sql); err != nil {
		if dbaas.CodeOf(err) == dbaas.CodeInvalid {
			return fmt.Errorf("%w: %w", ErrDiverged, err)
		}
		return err
	}
	return nil
}

// conflict remembers the first row that did not fit.
type conflict struct {
	kind  int32
	table string
}

func (c *Conn) applyRows(changeset []byte) error {
	if len(changeset) == 0 {
		return nil
	}
	if err := c.checkShapes(changeset); err != nil {
		return err
	}
	data := libc.Xmalloc(c.tls, types.Size_t(len(changeset)))
	if data == 0 {
		return errNoMemory
	}
	defer libc.Xfree(c.tls, data)
	copy(view(data, len(changeset)), changeset)
	c.conflict = conflict{}
	// Without a savepoint of its own: the caller gives the whole transaction up after an error, and
	// for a savepoint SQLite copies every page that changes into a file.
	rc := lib.Xsqlite3changeset_apply_v2(c.tls, c.db, int32(len(changeset)), data, 0, callback(onConflict), address(c), //nolint:gosec // a frame is below 2 GiB.
		0, 0, lib.SQLITE_CHANGESETAPPLY_NOSAVEPOINT)
	switch {
	case rc == lib.SQLITE_OK:
		return nil
	case c.conflict.kind != 0:
		return fmt.Errorf("%w: row of %s does not fit, conflict %d", ErrDiverged, c.conflict.table, c.conflict.kind)
	default:
		return c.failure(rc)
	}
}

// onConflict is called for a row that is not as the changeset expects it.
func onConflict(tls *libc.TLS, arg uintptr, kind int32, iterator uintptr) int32 {
	c := ref[Conn](arg)
	c.conflict.kind = kind
	if kind != lib.SQLITE_CHANGESET_FOREIGN_KEY {
		lib.Xsqlite3changeset_op(tls, iterator, c.out+outFirst, c.out+outSecond, c.out+outSecond+4, 0)
		c.conflict.table = libc.GoString(*ref[uintptr](c.out + outFirst))
	}
	return lib.SQLITE_CHANGESET_ABORT
}

// checkShapes makes sure that every table of the changeset is here and has the
// same columns, because the engine skips others silently.
func (c *Conn) checkShapes(changeset []byte) error {
	want, err := shapesOf(changeset)
	if err != nil {
		return err
	}
	if c.tables == nil {
		if c.tables, err = c.shapes(); err != nil {
			return err
		}
	}
	for name, w := range want {
		if have, ok := c.tables[name]; !ok || have != w {
			return fmt.Errorf("%w: table %s is missing or has other columns", ErrDiverged, name)
		}
	}
	return nil
}

// shapes reads the shape of every application table.
func (c *Conn) shapes() (map[string]shape, error) {
	tables, err := c.Tables()
	if err != nil {
		return nil, err
	}
	shapes := make(map[string]shape, len(tables))
	for _, t := range tables {
		s := shape{}
		err := c.Query("SELECT pk>0 FROM pragma_table_xinfo(?) WHERE hidden=0 ORDER BY cid", func(r Row) error {
			s.columns++
			s.key += string([]byte{byte(r.Int(0))}) //nolint:gosec // 0 or 1.
			return nil
		}, dbaas.Text(t))
		if err != nil {
			return nil, err
		}
		shapes[t] = s
	}
	return shapes, nil
}
