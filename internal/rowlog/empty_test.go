package rowlog_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// A consumer that applies each change of random commits has the tables, also if commits empty tables as a whole, once or more,
// between other changes of the same rows.
func TestEvent_RandomEmptying_ConsumerHasTheTables(t *testing.T) {
	const rows = 1100 // more than Capture needs to empty a table as a whole
	l, c := open(t), consumer{}
	rnd := rand.New(rand.NewPCG(3, 9))
	tables := []string{"k", "n", "w"}
	c.take(t, l.commit(t, `CREATE TABLE k(a INTEGER PRIMARY KEY, b); CREATE TABLE n(a, b); CREATE TABLE w(a PRIMARY KEY, b) WITHOUT ROWID`))
	fill := func(table string) string {
		return fmt.Sprintf(`INSERT OR REPLACE INTO %s(a, b) WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<%d) SELECT i, %d FROM n`, table, rows, rnd.IntN(3))
	}
	for range 20 {
		var statements []string
		for range 1 + rnd.IntN(5) {
			table, few, other := tables[rnd.IntN(3)], rnd.IntN(20), 2000+rnd.IntN(20)
			statements = append(statements, []string{
				fill(table), "DELETE FROM " + table, fill(table) + "; DELETE FROM " + table,
				"DELETE FROM " + table + fmt.Sprintf("; INSERT INTO %s(a, b) VALUES(%d, 'again'), (%d, 0)", table, few, few+1),
				fmt.Sprintf("INSERT OR REPLACE INTO %s(a, b) VALUES(%d, 'new'), (%d, 'new')", table, few, other),
				fmt.Sprintf("UPDATE %s SET b='changed' WHERE a<%d", table, few), fmt.Sprintf("DELETE FROM %s WHERE a<%d", table, few),
				fmt.Sprintf("UPDATE OR REPLACE %s SET a=%d WHERE a=%d", table, other, few),
			}[rnd.IntN(8)])
		}
		c.take(t, l.commit(t, strings.Join(statements, "; ")))
	}
	for _, table := range tables {
		c.take(t, l.commit(t, fill(table)))
		c.take(t, l.commit(t, "DELETE FROM "+table))
	}
	if len(c) != 0 {
		t.Errorf("got %d rows left, want none after all tables were emptied", len(c))
	}
}
