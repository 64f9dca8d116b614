package commitlog

import (
	"regexp"
	"slices"
	"strings"

	"rideshare/internal/dbaas"
	"rideshare/internal/replication"
	"rideshare/internal/sqlite"
	"rideshare/internal/sqltext"
)

// framing matches the statements that usually enclose a dump. A load skips them.
var framing = regexp.MustCompile(`(?is)^(?:(?:BEGIN(?:\s+(?:DEFERRED|IMMEDIATE|EXCLUSIVE))?|COMMIT|END)(?:\s+TRANSACTION)?|PRAGMA\s+foreign_keys\s*(?:=.*|\(.*\)))$`)

// maxFraming bounds the length in bytes of the statements that are matched against framing.
const maxFraming = 1 << 10

// load runs operation i, which is a load. It is committed alone: it takes long, and it defers
// foreign keys.
func (b *batch) load(i int) error {
	if !b.alone() {
		b.refuse(i, dbaas.CodeSlow, "a load is committed alone")
		return errRetry
	}
	at := stmtRef{op: i}
	if err := b.plan.failed[at]; err != nil { // it failed in an earlier round and undid the transaction.
		b.plan.writes[i] = true
		b.results[i].Statements = append(b.results[i].Statements, failure(err))
		return nil
	}
	if b.ops[i].Load == dbaas.LoadReplace {
		if name, err := b.filledTable(); err != nil || name != "" {
			if err != nil {
				return unavailable(err)
			}
			b.refuse(i, dbaas.CodeConflict, "table "+name+" has rows: a database file is loaded only while no table has any")
			return errRetry
		}
	}
	c, mark := b.s.conn, b.s.capture.Mark()
	if err := c.Savepoint(); err != nil {
		return unavailable(err)
	}
	var result dbaas.StatementResult
	err := c.WithLength(dbaas.MaxLoad, func() (err error) {
		result, err = b.runLoad(at)
		return err
	})
	if err != nil {
		return err
	}
	b.results[i].Statements = append(b.results[i].Statements, result)
	if result.Code == dbaas.CodeOK {
		return unavailableOrNil(c.Release())
	}
	if err = c.RollbackTo(); err != nil {
		return unavailable(err)
	}
	b.s.capture.Rewind(mark)
	return nil
}

// runLoad runs the statements of a load with deferred foreign keys. If one of them needs a table or
// key that a later one creates, the whole load runs again without foreign keys, which are then
// checked at its end.
func (b *batch) runLoad(at stmtRef) (result dbaas.StatementResult, err error) {
	c := b.s.conn
	if b.plan.unlinked {
		err = c.WithoutForeignKeys(func() error {
			if result, err = b.runText(at); err != nil || result.Code != dbaas.CodeOK {
				return err
			}
			result, err = b.checkLinks(at, result)
			return err
		})
		return result, err
	}
	if err = c.ExecOnce("PRAGMA defer_foreign_keys=ON"); err != nil { // until the end of the transaction.
		return result, unavailable(err)
	}
	result, err = b.runText(at)
	switch {
	case err != nil:
		return result, err
	case strings.HasPrefix(result.Message, "no such table: main.") || strings.HasPrefix(result.Message, "foreign key mismatch"):
		b.plan.unlinked = true
		return result, errRetry
	case result.Code == dbaas.CodeOK && c.OpenForeignKeys():
		return failure(errForeignKey), nil
	}
	return result, nil
}

// checkLinks replaces the result of a load by an error if a row's foreign key refers to a missing row.
func (b *batch) checkLinks(at stmtRef, result dbaas.StatementResult) (dbaas.StatementResult, error) {
	err := b.s.conn.Until(b.plan.opEnd, func() error {
		return b.s.conn.QueryOnce("PRAGMA foreign_key_check", func(sqlite.Row) error { return errForeignKey })
	})
	if err != nil {
		return b.classify(at, err, true)
	}
	return result, nil
}

// runText runs the statements of a load up to the first that fails, and returns the last result.
func (b *batch) runText(at stmtRef) (last dbaas.StatementResult, err error) {
	op := &b.ops[at.op]
	given := op.Statements
	defer func() { op.Statements = given }()
	run := func(sql string) bool {
		b.plan.returned = 0 // only the last result is kept.
		op.Statements = []dbaas.Statement{{SQL: sql}}
		last, err = b.statement(at)
		return err == nil && last.Code == dbaas.CodeOK
	}
	if op.Load == dbaas.LoadReplace {
		drops, failed := b.drops()
		if failed != nil {
			return last, unavailable(failed)
		}
		for _, sql := range drops {
			if !run(sql) {
				return last, err
			}
		}
		last = dbaas.StatementResult{}
	}
	for sql := range sqltext.Statements(given[0].SQL) {
		if b.late(at) != nil { // statements without effect take time too.
			return failure(errLate), nil
		}
		without, failed := b.withoutEffect(sql)
		if failed != nil {
			return last, unavailable(failed)
		}
		if !without && !run(sql) {
			return last, err
		}
	}
	return last, nil
}

// withoutEffect reports whether a load skips a statement. It skips framing, and a statement that would create one of
// the application's own tables or indexes exactly as it exists: every database and every backup contains those.
func (b *batch) withoutEffect(sql string) (without bool, err error) {
	if len(sql) < maxFraming && framing.MatchString(sql) {
		return true, nil
	}
	if len(sql) < len("CREATE") || !strings.EqualFold(sql[:len("CREATE")], "CREATE") {
		return false, nil
	}
	err = b.s.conn.Query("SELECT name FROM sqlite_master WHERE sql=?", func(r sqlite.Row) error {
		without = without || b.s.protected(r.Text(0))
		return nil
	}, dbaas.Text(sql))
	return without, err
}

// protected reports whether a table or index belongs to the application.
func (s *Store) protected(name string) bool {
	return slices.ContainsFunc(s.cfg.Protected, func(p string) bool { return sqltext.SameName(p, name) })
}

// object is a table, index or view of a client or of the application.
type object struct{ kind, name string }

// objects returns all objects of clients and of the application, except triggers, the system's own tables, and indexes
// that the engine made for a table. Tables come last.
func (b *batch) objects() (all []object, err error) {
	err = b.s.conn.Query(`SELECT type, name FROM sqlite_master WHERE type<>'trigger' AND sql IS NOT NULL AND substr(lower(tbl_name),1,3)<>'rs_'
		AND name NOT LIKE 'sqlite!_%' ESCAPE '!' ORDER BY type='table', rowid`, func(r sqlite.Row) error {
		all = append(all, object{strings.ToUpper(r.Text(0)), r.Text(1)})
		return nil
	})
	return all, err
}

// filledTable returns the name of a table that has a row, or "".
func (b *batch) filledTable() (filled string, err error) {
	all, err := b.objects()
	for _, o := range all {
		if err != nil || filled != "" {
			break
		}
		if o.kind == "TABLE" {
			err = b.s.conn.QueryOnce("SELECT 1 FROM "+replication.QuoteName(o.name)+" LIMIT 1", func(sqlite.Row) error {
				filled = o.name
				return nil
			})
		}
	}
	return filled, err
}

// drops returns the statements that drop all tables, indexes and views except the application's own, and that reset all
// AUTOINCREMENT counters.
func (b *batch) drops() ([]string, error) {
	all, err := b.objects()
	var drops []string
	for _, o := range all {
		if !b.s.protected(o.name) {
			drops = append(drops, "DROP "+o.kind+" IF EXISTS "+replication.QuoteName(o.name)) // an index may have gone with its table
		}
	}
	counters, failed := b.s.conn.Counters()
	if err == nil && failed == nil && len(counters) > 0 {
		drops = append(drops, "DELETE FROM "+sqlite.CounterTable)
	}
	if err == nil {
		err = failed
	}
	return drops, err
}
