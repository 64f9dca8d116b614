package sqlgen

import (
	"math/rand/v2"
	"slices"
	"strings"

	"rideshare/internal/dbaas"
	"rideshare/internal/sqltext"
)

// Generator makes operations. It tracks the schema as if every statement had succeeded, so that most statements name
// things that exist. It is not safe for concurrent use.
type Generator struct {
	rnd    *rand.Rand
	loose  bool
	tables map[string]*table // by lower-case name
	past   []Statement       // earlier schema statements, to be repeated
	sent   []Operation
	next   int
}

// table is what the generator assumes about a table.
type table struct {
	name    string
	columns []column // that can be written
	noRowid bool
	single  bool // the first column alone is the key
}

type column struct {
	name  string
	kind  string // declared type
	rowid bool   // stands for the rowid
	key   bool
}

// The names. There are few, so that they recur.
var (
	tableNames   = []string{"t1", "t2", "t3", "T2", `"order"`}
	columnNames  = []string{"a", "b", "c", "d"}
	indexNames   = []string{"i1", "i2", "i3"}
	viewNames    = []string{"v1", "v2"}
	triggerNames = []string{"r1", "r2", "r3"}
	clauses      = []string{"ROLLBACK", "ABORT", "FAIL", "IGNORE", "REPLACE"}
)

// New returns a generator. The statements of a loose generator may depend on chance, the clock or the connection.
func New(seed uint64, loose bool) *Generator {
	rnd := rand.New(rand.NewPCG(seed, 0x5ca1ab1e)) //nolint:gosec // a seed must give the same texts again.
	return &Generator{rnd: rnd, loose: loose, tables: map[string]*table{}}
}

// Make makes a whole script: one in eight is loose.
func Make(seed uint64) Script {
	s := Script{Seed: seed, Loose: seed%8 == 7}
	g := New(seed, s.Loose)
	for range 3 + g.rnd.IntN(10) {
		var b Batch
		if len(s.Batches) == 0 {
			b.Operations = append(b.Operations, g.Begin())
		}
		for range 1 + g.rnd.IntN(5) {
			b.Operations = append(b.Operations, g.Operation())
		}
		if g.chance(40) {
			b.Then = of(g, Restart, Trim, Join, Claim, Follow, Follow)
		}
		s.Batches = append(s.Batches, b)
	}
	return s
}

// chance returns true in percent of all cases.
func (g *Generator) chance(percent int) bool { return g.rnd.IntN(100) < percent }

// sometimes returns s in percent of all cases, and "" otherwise.
func (g *Generator) sometimes(percent int, s string) string {
	if g.chance(percent) {
		return s
	}
	return ""
}

// Begin returns an operation that creates some tables.
func (g *Generator) Begin() Operation {
	o := Operation{Number: g.next}
	for range 2 + g.rnd.IntN(2) {
		o.Statements = append(o.Statements, g.createTable())
	}
	g.next++
	g.sent = append(g.sent, o)
	return o
}

// Operation returns the next operation: a new one, a repeated earlier one or, rarely, a different one with the number of
// an earlier one.
func (g *Generator) Operation() Operation {
	if len(g.sent) > 0 && g.chance(6) {
		return one(g, g.sent[max(0, len(g.sent)-12):])
	}
	o := Operation{Number: g.next, Atomic: g.chance(35)}
	for range of(g, 1, 1, 1, 2, 2, 3, 4, 6) {
		o.Statements = append(o.Statements, g.statement())
	}
	if len(g.sent) > 0 && g.chance(2) {
		o.Number = one(g, g.sent).Number
		return o
	}
	g.next++
	g.sent = append(g.sent, o)
	return o
}

// statement draws one statement.
func (g *Generator) statement() Statement {
	if len(g.past) > 0 && g.chance(5) {
		return one(g, g.past)
	}
	switch p := g.rnd.IntN(100); {
	case p < 22:
		return g.schemaStatement()
	case p < 92:
		return g.change()
	case p < 97:
		return g.selects()
	default:
		return g.broken()
	}
}

// broken draws a statement that fails whatever the database contains.
func (g *Generator) broken() Statement {
	if g.chance(50) {
		sql := of(g, "SELEC 1", "INSERT INTO", "CREATE TABLE x(", "SELECT * FROM nowhere", "SELECT 'open", "DELETE FROM t1 WHERE", "UPDATE t1 SET nope=1",
			"INSERT INTO t1 VALUES(1,2,3,4,5,6,7,8,9)", "SELECT abs(-9223372036854775807-1)", "SELECT json('{')")
		return Statement{Statement: dbaas.Statement{SQL: sql}}
	}
	if g.chance(10) { // SQLite takes a parameter without a value as NULL.
		return Statement{Statement: dbaas.Statement{SQL: "SELECT ?"}, Kind: Refused}
	}
	sql := of(g, "BEGIN", "COMMIT", "END", "ROLLBACK", "SAVEPOINT s", "RELEASE s", "ATTACH ':memory:' AS x", "DETACH x", "VACUUM", "ANALYZE",
		"CREATE TABLE x1 AS SELECT 1 AS a", "CREATE TEMP TABLE x1(a)", "CREATE TEMP VIEW x1 AS SELECT 1", "CREATE VIRTUAL TABLE x1 USING fts5(a)",
		"PRAGMA user_version=7", "PRAGMA writable_schema=1", "CREATE TABLE rs_x(a)", "SELECT * FROM rs_applied", "DELETE FROM sqlite_master",
		"DROP TABLE IF EXISTS rs_applied", "SELECT load_extension('x')", "SELECT * FROM dbstat")
	return Statement{Statement: dbaas.Statement{SQL: sql}, Kind: Refused}
}

// table draws a table that should exist.
func (g *Generator) table() *table {
	if len(g.tables) == 0 || g.chance(2) {
		return &table{name: one(g, tableNames), columns: []column{{name: "a"}, {name: "b"}}}
	}
	names := make([]string, 0, len(g.tables))
	for name := range g.tables {
		names = append(names, name)
	}
	slices.Sort(names)
	return g.tables[one(g, names)]
}

// column draws a column of t.
func (g *Generator) column(t *table) column {
	if len(t.columns) == 0 || g.chance(2) {
		return column{name: one(g, columnNames)}
	}
	return one(g, t.columns)
}

// known returns the table of that name, or nil if no such table should exist.
func (g *Generator) known(name string) *table { return g.tables[fold(name)] }

func fold(name string) string { return sqltext.Fold(strings.Trim(name, `"`)) }
