package sqlite

import (
	"fmt"

	"rideshare/internal/dbaas"
)

// CreatePosition creates the table that holds the position inside the file, at 0, unless it exists. Call it in the
// transaction that creates the file.
func (c *Conn) CreatePosition() error {
	err := c.once(`CREATE TABLE IF NOT EXISTS rs_applied(
		one INTEGER PRIMARY KEY CHECK(one=1), seq INTEGER NOT NULL, epoch INTEGER NOT NULL) STRICT`)
	if err == nil {
		err = c.once(`INSERT OR IGNORE INTO rs_applied(one, seq, epoch) VALUES(1, 0, 0)`)
	}
	if err != nil {
		return fmt.Errorf("create position: %w", err)
	}
	return nil
}

// Position returns the last applied entry's seq and epoch. Inside a transaction it comes from the same state as the
// transaction's other reads.
func (c *Conn) Position() (dbaas.Head, error) {
	var h dbaas.Head
	found := false
	err := c.Query("SELECT seq, epoch FROM rs_applied WHERE one=1", func(r Row) error {
		found = true
		h = dbaas.Head{Seq: dbaas.Seq(r.Int(0)), Epoch: dbaas.Epoch(r.Int(1))} //nolint:gosec // never negative.
		return nil
	})
	if err == nil && !found {
		err = dbaas.Errorf(dbaas.CodeInternal, "the file has no position")
	}
	if err != nil {
		return h, fmt.Errorf("read position: %w", err)
	}
	return h, nil
}

// SetPosition writes the position. It is for the side that creates entries; replicas use Apply.
func (c *Conn) SetPosition(h dbaas.Head) error {
	err := c.Exec("UPDATE rs_applied SET seq=?1, epoch=?2 WHERE one=1",
		dbaas.Integer(int64(h.Seq)), dbaas.Integer(int64(h.Epoch))) //nolint:gosec // SQLite's integers end at 2^63.
	if err != nil {
		return fmt.Errorf("write position %d: %w", h.Seq, err)
	}
	return nil
}

// PageSize is the page size of the files that Open creates.
const PageSize = 4096

// UsedPages returns how many pages of the file are in use, including the changes of the open transaction.
func (c *Conn) UsedPages() (int64, error) {
	var all, free int64
	err := c.Query("PRAGMA page_count", func(r Row) error { all = r.Int(0); return nil })
	if err == nil {
		err = c.Query("PRAGMA freelist_count", func(r Row) error { free = r.Int(0); return nil })
	}
	if err != nil {
		return 0, fmt.Errorf("count pages: %w", err)
	}
	return all - free, nil
}

// CopyUsed copies the file's contents into a new file at path, without free pages and with the same row ids.
func (c *Conn) CopyUsed(path string) error {
	defer c.forget("VACUUM INTO ?")
	return c.Exec("VACUUM INTO ?", dbaas.Text(path)) // VACUUM itself renumbers the rows of tables without an index.
}

// RoomToGrow reports whether the file is below its size limit (Options.MaxPages).
func (c *Conn) RoomToGrow() (room bool, err error) {
	err = c.Query("SELECT page_count < max_page_count FROM pragma_page_count, pragma_max_page_count", func(r Row) error {
		room = r.Int(0) != 0
		return nil
	})
	return room, err
}

// CheckpointPassive moves the WAL into the file as far as readers and free space allow.
func (c *Conn) CheckpointPassive() { _ = c.once("PRAGMA wal_checkpoint(PASSIVE)") } // the next commit does the rest.

// QuickCheck reads the whole file and returns a CodeInternal error if its structure is damaged.
func (c *Conn) QuickCheck() error {
	return c.Query("PRAGMA quick_check(1)", func(r Row) error {
		if text := r.Text(0); text != "ok" {
			return dbaas.Errorf(dbaas.CodeInternal, "database file is damaged: %s", text)
		}
		return nil
	})
}
