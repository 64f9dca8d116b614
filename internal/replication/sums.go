package replication

import (
	"fmt"
	"maps"
	"slices"

	"rideshare/internal/dbaas"
	"rideshare/internal/packed"
	"rideshare/internal/sqlite"
	"rideshare/internal/sqltext"

	"github.com/cespare/xxhash/v2"
)

// tableSum is a checksum of a table's rows that does not depend on their order: their number, and the sum of their
// hashes. persdb stores one for each table, in the same transactions as the rows. So it detects bytes that changed on
// the disk.
type tableSum struct {
	rows int64
	sum  uint64 // modulo 2^64
}

// rowSum hashes a row's identity and values in their recorded form.
func rowSum(recorded []byte) uint64 { return xxhash.Sum64(recorded) }

// sums holds the committed sums and the effect of the current batch on them.
type sums struct {
	kept    bool                // the connection keeps sums
	total   map[string]tableSum // as committed
	delta   map[string]tableSum // of the batch
	emptied map[string]bool     // tables whose delta begins at zero
	again   []string            // tables to sum up afresh: a schema change rewrote their rows
	moved   map[string]string   // the names in total of tables that the batch has renamed, by their new names
	schema  bool                // the batch changes the schema
	pending map[string]tableSum // entries of total to be set
	gone    []string            // entries of total to be deleted
}

func (s *sums) begin() {
	s.delta, s.emptied, s.again, s.schema = map[string]tableSum{}, map[string]bool{}, nil, false
	s.moved = map[string]string{}
	s.pending, s.gone = nil, nil
}

func (s *sums) add(table string, rows int64, sum uint64) {
	d := s.delta[table]
	s.delta[table] = tableSum{rows: d.rows + rows, sum: d.sum + sum}
}

func (s *sums) empty(table string) {
	s.delta[table], s.emptied[table] = tableSum{}, true
}

// KeepSums creates the table of the sums in the open transaction, if it is missing, and maintains the sums from then
// on.
func (k *Capture) KeepSums() error {
	c := k.c
	err := c.ExecOnce(`CREATE TABLE IF NOT EXISTS rs_sums(name TEXT PRIMARY KEY, rows INTEGER NOT NULL, sum INTEGER NOT NULL) STRICT, WITHOUT ROWID`)
	if err != nil {
		return fmt.Errorf("create sums: %w", err)
	}
	k.sums.kept = true
	if k.sums.total, err = readSums(c); err != nil {
		return err
	}
	tables, err := k.load()
	for name, t := range tables {
		if _, known := k.sums.total[name]; err == nil && !known { // a version without sums wrote the file
			k.sums.total[name], err = sumTable(c, t)
			err = firstOf(err, writeSum(c, name, k.sums.total[name]))
		}
	}
	return err
}

// Reload makes the Capture reread the committed state. Call it if the outcome of the batch's COMMIT is unknown, or if
// the state was changed by something other than a batch.
func (k *Capture) Reload() (err error) {
	k.sequences = nil
	if k.sums.kept {
		k.sums.total, err = readSums(k.c)
	}
	return err
}

// Replay applies entries to a file with sums, in the open transaction. It calls each with a function that applies one
// entry. Replay records nothing, so the size limit does not apply. After schema changes it sums up all tables once.
// Errors are those of each and of Applier.Apply. The connection must be WithoutTriggers.
func (k *Capture) Replay(each func(apply func(dbaas.Entry) error) error) error {
	if err := k.Begin(); err != nil {
		return err
	}
	defer k.End()
	k.replaying = true
	defer func() { k.replaying = false }()
	err := each(func(e dbaas.Entry) error {
		if slices.ContainsFunc(e.Changes, func(c dbaas.Change) bool { return c.Kind == dbaas.ChangeSchema }) {
			k.sums.schema, k.on = true, false
		}
		return (&Applier{schema: &k.schema}).Apply(e)
	})
	if err = firstOf(err, k.err); err != nil {
		return err
	}
	if k.sums.schema {
		tables, err := k.load()
		if err != nil {
			return err
		}
		k.sums.again = slices.Collect(maps.Keys(tables))
	}
	return k.takeSums()
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func readSums(c *sqlite.Conn) (map[string]tableSum, error) {
	total := map[string]tableSum{}
	err := c.Query("SELECT name, rows, sum FROM rs_sums", func(r sqlite.Row) error {
		total[r.Text(0)] = tableSum{rows: r.Int(1), sum: uint64(r.Int(2))}
		return nil
	})
	return total, err
}

func writeSum(c *sqlite.Conn, name string, s tableSum) error {
	return c.Exec("INSERT OR REPLACE INTO rs_sums(name, rows, sum) VALUES(?,?,?)",
		dbaas.Text(name), dbaas.Integer(s.rows), dbaas.Integer(int64(s.sum)))
}

// takeSums writes the sums of the tables that the batch has changed.
func (k *Capture) takeSums() error {
	s, c := &k.sums, k.c
	if !s.kept {
		return nil
	}
	s.pending = make(map[string]tableSum, len(s.delta))
	for name, d := range s.delta {
		if was := s.total[s.origin(name)]; !s.emptied[name] {
			d = tableSum{rows: was.rows + d.rows, sum: was.sum + d.sum}
		}
		s.pending[name] = d
	}
	if s.schema {
		if err := k.takeSchema(); err != nil {
			return err
		}
	}
	for name, sum := range s.pending {
		if err := writeSum(c, name, sum); err != nil {
			return err
		}
	}
	return nil
}

// takeSchema computes the sums of tables that the batch has created or rewritten, and deletes those of dropped tables.
func (k *Capture) takeSchema() error {
	s, c := &k.sums, k.c
	tables, err := k.load()
	for name, t := range tables {
		_, known := s.total[s.origin(name)]
		if err == nil && (!known || s.afresh(name)) {
			s.pending[name], err = sumTable(c, t)
		}
	}
	for _, have := range []map[string]tableSum{s.total, s.pending} {
		for name := range have {
			if _, exists := tables[name]; err == nil && !exists {
				s.gone = append(s.gone, name)
				delete(s.pending, name)
				err = c.Exec("DELETE FROM rs_sums WHERE name=?", dbaas.Text(name))
			}
		}
	}
	return err
}

// afresh reports whether a table must be summed up.
func (s *sums) afresh(name string) bool {
	return slices.ContainsFunc(s.again, func(a string) bool { return sqltext.SameName(a, name) })
}

// origin returns a table's name in total.
func (s *sums) origin(name string) string {
	if was, moved := s.moved[name]; moved {
		return was
	}
	return name
}

// altered notes which sums a schema change has made useless. rewritten are the tables that it drops or alters, before and after are
// all tables. A table whose rows are as they were keeps its sum, also under a new name: summing up a large table takes longer than a
// commit may.
func (s *sums) altered(rewritten []string, before, after map[string]*table) {
	for _, name := range rewritten {
		old := (&schema{tables: before}).find(name)
		if old == nil {
			s.again = append(s.again, name)
			continue
		}
		if now := after[old.name]; now != nil {
			if !now.sameRows(old) {
				s.again = append(s.again, old.name)
			}
			continue
		}
		if now := added(before, after); now != nil && now.sameRows(old) && !s.afresh(old.name) {
			s.move(old.name, now.name)
		}
		s.again = append(s.again, old.name) // another table may get the name
	}
}

// move gives a table's sum to the table's new name.
func (s *sums) move(from, to string) {
	s.moved[to] = s.origin(from)
	s.delta[to], s.emptied[to] = s.delta[from], s.emptied[from]
	delete(s.delta, from)
	delete(s.emptied, from)
}

// added returns the table that is only in after, or nil.
func added(before, after map[string]*table) *table {
	for name, t := range after {
		if before[name] == nil {
			return t
		}
	}
	return nil
}

// sameRows reports whether an ALTER TABLE that made t from old has left the recorded form of each row as it was. One statement adds
// or drops one column at most.
func (t *table) sameRows(old *table) bool {
	return len(t.stored) == len(old.stored) && slices.Equal(t.index, old.index) && slices.Equal(t.at, old.at) && slices.Equal(t.reals, old.reals)
}

// committed makes the batch's sums the committed ones.
func (s *sums) committed() {
	for _, name := range s.gone {
		delete(s.total, name)
	}
	maps.Copy(s.total, s.pending)
}

// sumTable computes the sum by reading all rows of a table.
func sumTable(c *sqlite.Conn, t *table) (tableSum, error) {
	var sum tableSum
	var buf []byte
	err := c.QueryOnce(t.all(), func(r sqlite.Row) error {
		buf = t.appendRow(buf[:0], r)
		sum.rows++
		sum.sum += rowSum(buf)
		return nil
	})
	return sum, err
}

// appendRow appends a row of t.all in the form that Capture records.
func (t *table) appendRow(b []byte, r sqlite.Row) []byte {
	first := 0
	if !t.withoutRowid {
		b, first = packed.AppendInt(b, r.Int(0)), 1
	}
	for _, place := range t.at {
		b = packed.AppendValue(b, r.Borrow(first+place))
	}
	return b
}
