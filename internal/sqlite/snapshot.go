package sqlite

import (
	"fmt"
	"strings"

	"rideshare/internal/dbaas"
)

// Snapshot copies the application's tables of the live file at from, and the
// position, into a new file at to, as they are at one moment. Writers of from are
// not held up. The internal tables of the log are never in the copy, not even as
// free pages, and the copy is compact. to must not exist; after an error the caller removes it.
//
// VACUUM INTO would copy the log as well, which is larger than the tables by far.
func Snapshot(from, to string) (dbaas.Head, error) {
	c, err := Open(to, Options{})
	if err != nil {
		return dbaas.Head{}, err
	}
	head, err := c.copyFrom(from)
	if closed := c.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return dbaas.Head{}, fmt.Errorf("snapshot: %w", err)
	}
	return head, nil
}

func (c *Conn) copyFrom(from string) (dbaas.Head, error) {
	uri, err := fileURI(from, true)
	if err != nil {
		return dbaas.Head{}, err
	}
	// One plain file, which can be read as it is: no WAL beside it.
	if err = c.once("PRAGMA journal_mode=DELETE"); err != nil {
		return dbaas.Head{}, err
	}
	if err = c.Exec("ATTACH ? AS src", dbaas.Text(uri)); err != nil {
		return dbaas.Head{}, err
	}
	if err = c.Begin(); err != nil {
		return dbaas.Head{}, err
	}
	if err = c.copyAll(); err != nil {
		return dbaas.Head{}, err
	}
	head, err := c.Position()
	if err != nil {
		return head, err
	}
	return head, c.Commit()
}

// object is one row of the schema table.
type object struct{ kind, name, sql string }

func (c *Conn) copyAll() error {
	var objects []object
	err := c.Query(`SELECT type, name, sql FROM src.sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite!_%' ESCAPE '!'
		AND (substr(lower(tbl_name),1,3)<>'rs_' OR tbl_name='rs_applied') ORDER BY type='trigger', type='view', type='index', rowid`,
		func(r Row) error {
			objects = append(objects, object{r.Text(0), r.Text(1), r.Text(2)})
			return nil
		})
	if err != nil {
		return fmt.Errorf("read schema: %w", err)
	}
	copied := false
	for _, o := range objects {
		// Tables and indexes first, so that the engine can copy whole trees; then the
		// rows; then views and triggers, which must not fire.
		if !copied && (o.kind == "view" || o.kind == "trigger") {
			if err := c.copyRows(objects); err != nil {
				return err
			}
			copied = true
		}
		if err := c.once(o.sql); err != nil {
			return fmt.Errorf("create %s %s: %w", o.kind, o.name, err)
		}
	}
	if copied {
		return nil
	}
	return c.copyRows(objects)
}

func (c *Conn) copyRows(objects []object) error {
	for _, o := range objects {
		if o.kind != "table" {
			continue
		}
		if err := c.copyTable(o.name); err != nil {
			return fmt.Errorf("copy table %s: %w", o.name, err)
		}
	}
	sequence := false
	err := c.Query("SELECT 1 FROM main.sqlite_master WHERE name='sqlite_sequence'", func(Row) error {
		sequence = true
		return nil
	})
	if err != nil || !sequence {
		return err
	}
	if err := c.once("DELETE FROM sqlite_sequence"); err != nil {
		return err
	}
	return c.once("INSERT INTO sqlite_sequence SELECT * FROM src.sqlite_sequence WHERE substr(lower(name),1,3)<>'rs_'")
}

// copyTable copies the rows. "SELECT *" into an empty equal table is what the
// engine copies page by page; generated columns cannot be inserted, so tables with them name theirs.
func (c *Conn) copyTable(table string) error {
	var columns []string
	generated := false
	err := c.Query("SELECT name, hidden FROM pragma_table_xinfo(?)", func(r Row) error {
		if r.Int(1) == 0 {
			columns = append(columns, QuoteName(r.Text(0)))
		} else {
			generated = true
		}
		return nil
	}, dbaas.Text(table))
	if err != nil {
		return err
	}
	t := QuoteName(table)
	if !generated {
		return c.once("INSERT INTO main." + t + " SELECT * FROM src." + t)
	}
	list := strings.Join(columns, ",")
	return c.once("INSERT INTO main." + t + "(" + list + ") SELECT " + list + " FROM src." + t)
}
