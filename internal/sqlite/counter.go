package sqlite

import (
	"fmt"
	"math"

	"rideshare/internal/dbaas"
)

// CounterTable is the table where the engine keeps the counters of AUTOINCREMENT. It changes that table without calling
// OnRow's function.
const CounterTable = "sqlite_sequence"

// Counter is a row of CounterTable: a table's name and the last number used. Clients may store any value in both.
type Counter struct{ Name, Seq dbaas.Value }

// HasCounters reports whether the file has CounterTable. The engine makes it with the first table with AUTOINCREMENT.
func (c *Conn) HasCounters() (exists bool, err error) {
	err = c.Query("SELECT 1 FROM sqlite_master WHERE name='sqlite_sequence'", func(Row) error {
		exists = true
		return nil
	})
	return exists, err
}

// Counters returns the rows of CounterTable by row id, or none if the file has no such table.
func (c *Conn) Counters() (map[int64]Counter, error) {
	rows := map[int64]Counter{}
	exists, err := c.HasCounters()
	if exists {
		err = c.Query("SELECT rowid, name, seq FROM sqlite_sequence", func(r Row) error {
			rows[r.Int(0)] = Counter{Name: r.Value(1), Seq: r.Value(2)}
			return nil
		})
	}
	if err != nil {
		return nil, fmt.Errorf("read the counters: %w", err)
	}
	return rows, nil
}

// AddCounter inserts a row into CounterTable, which must exist.
func (c *Conn) AddCounter(id int64, n Counter) error {
	return c.Exec("INSERT INTO sqlite_sequence(rowid, name, seq) VALUES(?,?,?)", dbaas.Integer(id), n.Name, n.Seq)
}

// CounterUsedUp reports whether a counter of AUTOINCREMENT has reached its maximum. Then an INSERT that needs the next
// number fails as if the disk were full.
func (c *Conn) CounterUsedUp() (bool, error) {
	rows, err := c.Counters()
	for _, row := range rows {
		if row.Seq.Kind == dbaas.KindInteger && row.Seq.Int == math.MaxInt64 {
			return true, nil
		}
	}
	return false, err
}
