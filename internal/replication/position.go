package replication

import (
	"fmt"

	"rideshare/internal/dbaas"
	"rideshare/internal/sqlite"
)

// positionTable holds the position inside the file. Its statements contain its name.
const positionTable = "rs_applied"

// CreatePosition creates the table that holds the position inside the file, at 0, unless it exists. Call it in the
// transaction that creates the file.
func CreatePosition(c *sqlite.Conn) error {
	err := c.ExecOnce(`CREATE TABLE IF NOT EXISTS rs_applied(
		one INTEGER PRIMARY KEY CHECK(one=1), seq INTEGER NOT NULL, epoch INTEGER NOT NULL) STRICT`)
	if err == nil {
		err = c.ExecOnce(`INSERT OR IGNORE INTO rs_applied(one, seq, epoch) VALUES(1, 0, 0)`)
	}
	if err != nil {
		return fmt.Errorf("create position: %w", err)
	}
	return nil
}

// Position returns the last applied entry's seq and epoch. Inside a transaction it comes from the same state as the
// transaction's other reads. It returns CodeInternal for a file without a position.
func Position(c *sqlite.Conn) (dbaas.Head, error) {
	var h dbaas.Head
	found := false
	err := c.Query("SELECT seq, epoch FROM rs_applied WHERE one=1", func(r sqlite.Row) error {
		found = true
		h = dbaas.Head{Seq: dbaas.Seq(r.Int(0)), Epoch: dbaas.Epoch(r.Int(1))}
		return nil
	})
	if err == nil && !found {
		err = dbaas.WrapError(dbaas.CodeInternal, "the file has no position", sqlite.ErrDamaged)
	}
	if err != nil {
		return h, fmt.Errorf("read position: %w", err)
	}
	return h, nil
}

// SetPosition writes the position. It is for persdb, which creates the entries; replicas use Applier.
func SetPosition(c *sqlite.Conn, h dbaas.Head) error {
	err := c.Exec("UPDATE rs_applied SET seq=?1, epoch=?2 WHERE one=1",
		dbaas.Integer(int64(h.Seq)), dbaas.Integer(int64(h.Epoch)))
	if err != nil {
		return fmt.Errorf("write position %d: %w", h.Seq, err)
	}
	return nil
}
