package sqlite

import (
	"fmt"

	"rideshare/internal/dbaas"
)

// PageSize is the page size of the files that Open creates, and the only one that a Snapshot can read.
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

// RoomToGrow reports whether the file is below its size limit (SetMaxPages).
func (c *Conn) RoomToGrow() (room bool, err error) {
	err = c.Query("SELECT page_count < max_page_count FROM pragma_page_count, pragma_max_page_count", func(r Row) error {
		room = r.Int(0) != 0
		return nil
	})
	return room, err
}

// CheckpointPassive moves the WAL into the file as far as readers and free space allow.
func (c *Conn) CheckpointPassive() { _ = c.ExecOnce("PRAGMA wal_checkpoint(PASSIVE)") } // a later commit does the rest.

// SchemaVersion returns SQLite's version number of the schema, which changes with each schema change.
func (c *Conn) SchemaVersion() (version int64, err error) {
	err = c.Query("PRAGMA schema_version", func(r Row) error {
		version = r.Int(0)
		return nil
	})
	return version, err
}
