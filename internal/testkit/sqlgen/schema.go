package sqlgen

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"rideshare/internal/dbaas"
)

// schemaStatement draws a statement that changes the schema, and remembers its text.
func (g *Generator) schemaStatement() Statement {
	var s Statement
	switch p := g.rnd.IntN(100); {
	case p < 22:
		s = g.createTable()
	case p < 31:
		s = g.dropTable()
	case p < 50:
		s = g.createIndex()
	case p < 58:
		s = schema(fmt.Sprintf("DROP INDEX %s%s", g.ifExists(), one(g, indexNames)))
	case p < 72:
		s = g.createTrigger()
	case p < 76:
		s = schema(fmt.Sprintf("DROP TRIGGER %s%s", g.ifExists(), one(g, triggerNames)))
	case p < 82:
		s = g.createView()
	case p < 85:
		s = schema(fmt.Sprintf("DROP VIEW %s%s", g.ifExists(), one(g, viewNames)))
	case p < 87:
		s = schema("REINDEX" + of(g, "", " "+one(g, tableNames), " "+one(g, indexNames)))
	default:
		s = g.alter()
	}
	g.past = append(g.past, s)
	return s
}

func schema(sql string) Statement {
	return Statement{Statement: dbaas.Statement{SQL: sql}, Kind: Schema}
}

func (g *Generator) ifExists() string { return g.sometimes(60, "IF EXISTS ") }

func (g *Generator) ifNotExists() string { return g.sometimes(45, "IF NOT EXISTS ") }

// onConflict draws a conflict clause of a schema.
func (g *Generator) onConflict() string { return g.sometimes(25, " ON CONFLICT "+one(g, clauses)) }

func (g *Generator) collate() string {
	return g.sometimes(25, " COLLATE "+of(g, "NOCASE", "RTRIM", "BINARY"))
}

// createTable draws a table of any kind.
func (g *Generator) createTable() Statement {
	t := &table{name: g.newName()}
	strict := g.chance(15)
	kinds := []string{"", "INTEGER", "INTEGER", "TEXT", "TEXT", "REAL", "NUMERIC", "BLOB", "VARCHAR(10)", "DATE", "BOOLEAN"}
	if strict {
		kinds = []string{"INT", "INTEGER", "REAL", "TEXT", "BLOB", "ANY"}
	}
	var defs []string
	key, after := g.key(t, kinds)
	if key != "" {
		defs = append(defs, key)
	}
	for _, name := range columnNames[:1+g.rnd.IntN(len(columnNames))] {
		c := column{name: name, kind: one(g, kinds)}
		t.columns = append(t.columns, c)
		defs = append(defs, strings.TrimSpace(c.name+" "+c.kind)+g.constraints(c))
	}
	if g.chance(5) {
		c := column{name: of(g, "rowid", g.looseOr(`""`, "[]"))} // "" is a text where a table lacks such a column, for some connections
		t.columns = append(t.columns, c)
		defs = append(defs, c.name+g.sometimes(50, " "+kinds[len(kinds)-1])+g.constraints(column{}))
	}
	if g.chance(15) {
		defs = append(defs, g.generated(t, strict))
	}
	defs = append(defs, g.tableConstraints(t, after)...)
	var options []string
	if strict {
		options = append(options, "STRICT")
	}
	if slices.ContainsFunc(t.columns, func(c column) bool { return c.key && !c.rowid }) && g.chance(35) || g.chance(1) {
		options = append(options, "WITHOUT ROWID")
		t.noRowid = true
	}
	not := g.ifNotExists()
	if g.known(t.name) == nil {
		g.tables[fold(t.name)] = t
	}
	return schema(strings.TrimSpace(fmt.Sprintf("CREATE TABLE %s%s(%s) %s", not, t.name, strings.Join(defs, ", "), strings.Join(options, ", "))))
}

// newName draws a name for a table, usually one that is free.
func (g *Generator) newName() string {
	free := slices.DeleteFunc(slices.Clone(tableNames), func(name string) bool { return g.known(name) != nil })
	if len(free) == 0 || g.chance(25) {
		return one(g, tableNames)
	}
	return one(g, free)
}

// key draws a primary key: the definition of its column, or a constraint that comes after the columns.
func (g *Generator) key(t *table, kinds []string) (def, after string) {
	c := column{name: "id", key: true}
	switch g.rnd.IntN(12) {
	case 0, 1:
		return "", ""
	case 2, 3, 4:
		c.kind, c.rowid = "INTEGER", true
		def = "id INTEGER PRIMARY KEY" + g.onConflict()
		if g.chance(40) {
			def += " AUTOINCREMENT"
		}
	case 5:
		c.kind = "INTEGER"
		def = "id INTEGER PRIMARY KEY DESC" + g.onConflict()
	case 6, 7, 8, 9:
		c.kind = of(g, "TEXT", "TEXT", one(g, kinds))
		def = strings.TrimSpace("id "+c.kind) + g.sometimes(50, " NOT NULL") + g.collate() + " PRIMARY KEY" + g.onConflict()
	default:
		c.kind = one(g, kinds)
		def = strings.TrimSpace("id "+c.kind) + g.sometimes(40, " NOT NULL") + g.collate()
		again := g.sometimes(20, ", "+of(g, "id", "a")+g.collate())
		after = fmt.Sprintf("PRIMARY KEY(id%s, a%s%s%s)%s", g.collate(), g.collate(), g.sometimes(30, " DESC"), again, g.onConflict())
	}
	t.columns = append(t.columns, c)
	t.single = after == ""
	return def, after
}

// constraints draws the constraints after a column's type.
func (g *Generator) constraints(c column) string {
	s := g.collate()
	if g.chance(12) {
		s += " NOT NULL" + g.onConflict()
	}
	if g.chance(15) {
		s += " UNIQUE" + g.onConflict()
	}
	if g.chance(15) {
		s += " DEFAULT " + of(g, literal(g.valueFor(c)), "(1+1)", "('a'||'b')", "NULL", g.looseOr("CURRENT_TIMESTAMP", "5"))
	}
	if g.chance(8) {
		s += fmt.Sprintf(" CHECK(%s <> %s)", cmp.Or(c.name, "a"), literal(g.valueFor(c)))
	}
	if g.chance(7) {
		s += " " + g.references()
	}
	return s
}

// looseOr returns loose for a loose generator, and otherwise the other text.
func (g *Generator) looseOr(loose, otherwise string) string {
	if g.loose {
		return loose
	}
	return otherwise
}

func (g *Generator) references() string {
	target := g.table()
	for range 4 {
		if target.single {
			break
		}
		target = g.table()
	}
	s := fmt.Sprintf("REFERENCES %s", target.name)
	if g.chance(70) {
		c := column{name: "id"}
		if g.chance(20) {
			c = g.column(target)
		}
		s += "(" + c.name + ")"
	}
	actions := []string{"CASCADE", "CASCADE", "SET NULL", "SET DEFAULT", "RESTRICT", "NO ACTION"}
	s += g.sometimes(60, " ON DELETE "+one(g, actions))
	s += g.sometimes(50, " ON UPDATE "+one(g, actions))
	return s + g.sometimes(35, " DEFERRABLE INITIALLY DEFERRED")
}

// generated draws a generated column.
func (g *Generator) generated(t *table, strict bool) string {
	a := t.columns[len(t.columns)-1].name
	kind := ""
	if strict {
		kind = " ANY"
	}
	expr := of(g, a+" || 'x'", "abs("+a+")", "lower("+a+")", "typeof("+a+")", "coalesce("+a+", 0) + 1", "length("+a+")")
	return fmt.Sprintf("g%s AS (%s) %s%s", kind, expr, of(g, "STORED", "VIRTUAL"), g.sometimes(15, " UNIQUE"))
}

func (g *Generator) tableConstraints(t *table, key string) []string {
	var out []string
	if key != "" {
		out = append(out, key)
	}
	if g.chance(12) {
		out = append(out, fmt.Sprintf("UNIQUE(%s, %s%s)%s", g.column(t).name, g.column(t).name, g.collate(), g.onConflict()))
	}
	if g.chance(8) {
		out = append(out, fmt.Sprintf("FOREIGN KEY(%s) %s", g.column(t).name, g.references()))
	}
	if g.chance(8) {
		out = append(out, fmt.Sprintf("CHECK(length(%s) < 5)", g.column(t).name))
	}
	return out
}

func (g *Generator) dropTable() Statement {
	name := one(g, tableNames)
	delete(g.tables, fold(name))
	return schema(fmt.Sprintf("DROP TABLE %s%s", g.ifExists(), name))
}

func (g *Generator) createIndex() Statement {
	t := g.table()
	part := func() string {
		c := g.column(t).name
		return of(g, c, c, c+g.collate(), c+" DESC", "lower("+c+")", "abs("+c+")", "coalesce("+c+", 1)", "typeof("+c+")")
	}
	parts := part()
	if g.chance(35) {
		parts += ", " + part()
	}
	where := ""
	if g.chance(30) {
		c := g.column(t).name
		where = " WHERE " + of(g, c+" IS NOT NULL", c+" > 1", c+" = 'a'", "typeof("+c+")='integer'")
	}
	return schema(fmt.Sprintf("CREATE %sINDEX %s%s ON %s(%s)%s", g.sometimes(40, "UNIQUE "), g.ifNotExists(), one(g, indexNames), t.name, parts, where))
}

func (g *Generator) createView() Statement {
	t, u := g.table(), g.table()
	body := of(g,
		fmt.Sprintf("SELECT %s AS a, %s AS b FROM %s", g.column(t).name, g.column(t).name, t.name),
		fmt.Sprintf("SELECT * FROM %s", t.name),
		fmt.Sprintf("SELECT x.%s AS a, y.%s AS b FROM %s x JOIN %s y ON x.%s = y.%s", g.column(t).name, g.column(u).name, t.name, u.name, g.column(t).name, g.column(u).name),
		fmt.Sprintf("SELECT %s AS a, count(*) AS b FROM %s GROUP BY 1", g.column(t).name, t.name),
		of(g, "SELECT type AS a, name AS b FROM sqlite_master WHERE tbl_name NOT LIKE 'rs%'", "SELECT name AS a, seq AS b FROM sqlite_sequence"))
	return schema(fmt.Sprintf("CREATE VIEW %s%s AS %s", g.ifNotExists(), one(g, viewNames), body))
}

func (g *Generator) alter() Statement {
	t := g.table()
	switch g.rnd.IntN(7) {
	case 0:
		to := one(g, tableNames)
		if g.known(t.name) == t && g.known(to) == nil {
			delete(g.tables, fold(t.name))
			g.tables[fold(to)] = &table{name: to, columns: t.columns, noRowid: t.noRowid, single: t.single}
		}
		return schema(fmt.Sprintf("ALTER TABLE %s RENAME TO %s", t.name, to))
	case 1:
		return g.renameColumn(t)
	case 2, 3:
		c := column{name: of(g, "e", "f", "d"), kind: of(g, "TEXT", "INTEGER", "REAL", "")}
		if !slices.ContainsFunc(t.columns, func(o column) bool { return o.name == c.name }) {
			t.columns = append(t.columns, c)
		}
		more := of(g, "", "", " DEFAULT "+literal(g.valueFor(c)), " COLLATE NOCASE", " NOT NULL DEFAULT 1", " CHECK("+c.name+" IS NOT 3)", " AS (typeof(a))", " "+g.references())
		return schema(strings.TrimSpace(fmt.Sprintf("ALTER TABLE %s ADD COLUMN %s %s", t.name, c.name, c.kind)) + more)
	case 4:
		return g.alterConstraint(t)
	default:
		c := g.column(t)
		if len(t.columns) > 1 && !c.key {
			t.columns = slices.DeleteFunc(slices.Clone(t.columns), func(o column) bool { return o.name == c.name })
		}
		return schema(fmt.Sprintf("ALTER TABLE %s DROP COLUMN %s", t.name, c.name))
	}
}

func (g *Generator) alterConstraint(t *table) Statement {
	c := g.column(t).name
	return schema(fmt.Sprintf("ALTER TABLE %s ", t.name) + of(g,
		fmt.Sprintf("ALTER COLUMN %s SET NOT NULL%s", c, g.onConflict()), fmt.Sprintf("ALTER COLUMN %s DROP NOT NULL", c),
		fmt.Sprintf("ADD CONSTRAINT k CHECK(%s IS NOT %s)", c, g.looseOr("random()", "3")), "DROP CONSTRAINT k"))
}

func (g *Generator) renameColumn(t *table) Statement {
	c, to := g.column(t), of(g, "a", "b", "c", "d", "e", "id")
	if !slices.ContainsFunc(t.columns, func(o column) bool { return o.name == to }) {
		t.columns = slices.Clone(t.columns)
		for i := range t.columns {
			if t.columns[i].name == c.name {
				t.columns[i].name = to
			}
		}
	}
	return schema(fmt.Sprintf("ALTER TABLE %s RENAME COLUMN %s TO %s", t.name, c.name, to))
}
