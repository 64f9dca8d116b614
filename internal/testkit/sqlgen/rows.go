package sqlgen

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"rideshare/internal/dbaas"
)

// change draws a statement that changes rows.
func (g *Generator) change() Statement {
	x := g.newText()
	sql := ""
	switch p := g.rnd.IntN(100); {
	case p < 38:
		sql = x.insert(g.table())
	case p < 44:
		sql = x.insertSelect()
	case p < 72:
		sql = x.update(g.table())
	case p < 86:
		sql = x.delete(g.table())
	case p < 89:
		sql = x.onView()
	case p < 94:
		sql = x.application()
	case p < 96:
		return g.sequence()
	default:
		sql = x.with()
	}
	return x.statement(sql)
}

// selects draws a statement that reads, since clients also send reads among writes.
func (g *Generator) selects() Statement {
	x := g.newText()
	t := g.table()
	sql := of(g,
		fmt.Sprintf("SELECT rowid, * FROM %s", t.name),
		fmt.Sprintf("SELECT * FROM %s WHERE %s ORDER BY 1 DESC", t.name, x.condition(t)),
		fmt.Sprintf("SELECT count(*), max(%s), min(%s) FROM %s", g.column(t).name, g.column(t).name, t.name),
		fmt.Sprintf("SELECT DISTINCT %s FROM %s", g.column(t).name, t.name),
		"SELECT * FROM "+one(g, viewNames),
		"SELECT name, seq FROM sqlite_sequence ORDER BY 1",
		"SELECT type, name FROM sqlite_master WHERE name NOT LIKE 'rs%' AND tbl_name NOT LIKE 'rs%' ORDER BY 2",
		g.looseOr("SELECT random()", "SELECT 1 UNION SELECT 2"),
		g.looseOr("SELECT last_insert_rowid(), changes(), total_changes()", "VALUES(1, 'a')"),
		fmt.Sprintf("PRAGMA table_xinfo(%s)", t.name))
	// Drop the parameters of texts that were drawn but not chosen.
	if !strings.ContainsAny(sql, "?:@$") {
		x.args, x.named = nil, nil
	}
	return x.statement(sql)
}

// someColumns draws the columns of t to write.
func (g *Generator) someColumns(t *table) []column {
	if g.chance(50) {
		return t.columns
	}
	var out []column
	for _, c := range t.columns {
		if g.chance(60) || c.key && g.chance(80) {
			out = append(out, c)
		}
	}
	if len(out) == 0 {
		return t.columns
	}
	return out
}

func names(columns []column) string {
	out := make([]string, len(columns))
	for i, c := range columns {
		out[i] = c.name
	}
	return strings.Join(out, ", ")
}

func (x *text) insert(t *table) string {
	g := x.g
	verb := of(g, "INSERT "+g.or(), "INSERT "+g.or(), "INSERT "+g.or(), "REPLACE ")
	if g.chance(4) || len(t.columns) == 0 {
		return fmt.Sprintf("%sINTO %s DEFAULT VALUES%s", verb, t.name, x.returning(t))
	}
	columns := g.someColumns(t)
	if !t.noRowid && g.chance(12) {
		columns = append([]column{{name: of(g, "rowid", "_rowid_", "oid"), rowid: true}}, slices.DeleteFunc(slices.Clone(columns), func(c column) bool { return c.rowid })...)
	}
	var rows []string
	for range of(g, 1, 1, 1, 2, 3, 5) {
		values := make([]string, len(columns))
		for i, c := range columns {
			if g.chance(4) {
				values[i] = x.expression(nil)
			} else {
				values[i] = x.put(g.valueFor(c))
			}
		}
		rows = append(rows, "("+strings.Join(values, ", ")+")")
	}
	sql := fmt.Sprintf("%sINTO %s(%s) VALUES%s", verb, t.name, names(columns), strings.Join(rows, ", "))
	return sql + x.upsert(t) + x.returning(t)
}

func (x *text) upsert(t *table) string {
	g := x.g
	if !g.chance(18) {
		return ""
	}
	target := ""
	if g.chance(65) {
		target = "(" + cmp.Or(keyOf(t), g.column(t).name) + ")"
	}
	if target == "" && g.chance(60) || g.chance(30) {
		return " ON CONFLICT" + target + " DO NOTHING"
	}
	c := g.column(t)
	to := "excluded." + c.name
	if g.chance(35) {
		to = x.put(g.valueFor(c))
	}
	return fmt.Sprintf(" ON CONFLICT%s DO UPDATE SET %s = %s%s", target, c.name, to, g.sometimes(15, " WHERE excluded."+c.name+" IS NOT NULL"))
}

func keyOf(t *table) string {
	for _, c := range t.columns {
		if c.key {
			return c.name
		}
	}
	return ""
}

func (x *text) returning(t *table) string {
	g := x.g
	return g.sometimes(15, " RETURNING "+of(g, "*", "rowid, *", g.column(t).name, g.column(t).name+" IS NULL"))
}

func (x *text) insertSelect() string {
	g := x.g
	t, u := g.table(), g.table()
	c := g.column(t)
	return fmt.Sprintf("INSERT %sINTO %s(%s) SELECT %s FROM %s WHERE %s LIMIT 4", g.or(), t.name, c.name, of(g, g.column(u).name, g.column(u).name+" || 'x'"), u.name, x.condition(u))
}

// with draws a write whose rows come from a common table expression.
func (x *text) with() string {
	g := x.g
	t := g.table()
	c := g.column(t)
	n := 2 + g.rnd.IntN(6)
	numbers := fmt.Sprintf("WITH RECURSIVE x(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM x WHERE n<%d) ", n)
	return numbers + of(g,
		fmt.Sprintf("INSERT %sINTO %s(%s) SELECT n FROM x", g.or(), t.name, c.name),
		fmt.Sprintf("INSERT %sINTO %s(%s) SELECT 'v'||n FROM x", g.or(), t.name, c.name),
		fmt.Sprintf("UPDATE %s%s SET %s = %s WHERE %s IN (SELECT n FROM x)", g.or(), t.name, c.name, c.name, g.column(t).name),
		fmt.Sprintf("DELETE FROM %s WHERE %s IN (SELECT n FROM x)", t.name, c.name))
}

func (x *text) update(t *table) string {
	g := x.g
	c := g.column(t)
	if !t.noRowid && g.chance(6) {
		return fmt.Sprintf("UPDATE %s%s SET rowid = %s WHERE %s", g.or(), t.name, of(g, "rowid+1", "rowid+10", "-rowid", "10-rowid"), x.condition(t))
	}
	if g.chance(7) {
		u := g.table()
		return fmt.Sprintf("UPDATE %s%s SET %s = x.%s FROM %s AS x WHERE x.%s = %s.%s", g.or(), t.name, c.name, g.column(u).name, u.name,
			g.column(u).name, t.name, g.column(t).name)
	}
	set := c.name + " = " + x.expressionFor(t, c)
	if g.chance(30) {
		d := g.column(t)
		set += ", " + d.name + " = " + x.expressionFor(t, d)
	}
	where := ""
	if g.chance(75) {
		where = " WHERE " + x.condition(t)
	}
	return fmt.Sprintf("UPDATE %s%s SET %s%s%s", g.or(), t.name, set, where, x.returning(t))
}

func (x *text) delete(t *table) string {
	if x.g.chance(15) {
		return fmt.Sprintf("DELETE FROM %s%s", t.name, x.returning(t))
	}
	return fmt.Sprintf("DELETE FROM %s WHERE %s%s", t.name, x.condition(t), x.returning(t))
}

// onView draws a write to a view, which fails unless a trigger handles it.
func (x *text) onView() string {
	v := one(x.g, viewNames)
	switch x.g.rnd.IntN(3) {
	case 0:
		return fmt.Sprintf("INSERT INTO %s(a, b) VALUES(%s, %s)", v, x.value(), x.value())
	case 1:
		return fmt.Sprintf("UPDATE %s SET a = %s WHERE b = %s", v, x.value(), x.value())
	default:
		return fmt.Sprintf("DELETE FROM %s WHERE a = %s", v, x.value())
	}
}

// application draws a write to the application's own tables.
func (x *text) application() string {
	g := x.g
	user := func() string { return x.put(dbaas.Text(of(g, "ann", "bob", "Ann", "cid"))) }
	switch g.rnd.IntN(7) {
	case 0, 1:
		return fmt.Sprintf("INSERT %sINTO users VALUES(%s, 'x')", g.or(), user())
	case 2, 3:
		return fmt.Sprintf("INSERT INTO rides(created_by, timestamp, source, destination) VALUES(%s, 't', 1, 2)", user())
	case 4:
		return fmt.Sprintf("INSERT OR IGNORE INTO riders VALUES((SELECT max(rideId) FROM rides), %s)", user())
	case 5:
		return fmt.Sprintf("UPDATE users SET username = %s WHERE username = %s", user(), user())
	default:
		return fmt.Sprintf("DELETE FROM users WHERE username = %s", user())
	}
}

// sequence draws a write to the counters of AUTOINCREMENT, or one that uses up a counter.
func (g *Generator) sequence() Statement {
	name := strings.Trim(one(g, tableNames), `"`)
	sql := of(g, "DELETE FROM sqlite_sequence", fmt.Sprintf("DELETE FROM sqlite_sequence WHERE name='%s'", name),
		fmt.Sprintf("UPDATE sqlite_sequence SET seq=seq+5 WHERE name='%s'", name), fmt.Sprintf("INSERT INTO sqlite_sequence VALUES('%s', 20)", name),
		fmt.Sprintf("UPDATE sqlite_sequence SET seq=%d WHERE name='%s'", int64(math.MaxInt64), name))
	return Statement{Statement: dbaas.Statement{SQL: sql}}
}

// expressionFor draws the new value of a column.
func (x *text) expressionFor(t *table, c column) string {
	if x.g.chance(45) {
		return x.put(x.g.valueFor(c))
	}
	if c.rowid {
		return of(x.g, c.name+"+1", "-"+c.name, "10-"+c.name, fmt.Sprintf("CASE %s WHEN 1 THEN 2 WHEN 2 THEN 1 ELSE %s END", c.name, c.name))
	}
	return x.expression(t)
}

// expression draws an expression, over t's columns if t is not nil.
func (x *text) expression(t *table) string {
	g := x.g
	if t == nil {
		return of(g, "1+1", "'a'||'b'", "abs(-3)", "upper('a')", g.looseOr("random()%7", "zeroblob(2)"), g.looseOr("datetime('now')", "NULL"),
			g.looseOr("randomblob(2)", "1.5"), g.looseOr("last_insert_rowid()", "NULL"))
	}
	c := g.column(t).name
	switch g.rnd.IntN(10) {
	case 0:
		return fmt.Sprintf("CASE %s WHEN 'a' THEN 'A' WHEN 1 THEN 2 WHEN 2 THEN 1 ELSE %s END", c, c)
	case 1:
		return c + " || " + of(g, "'x'", "' '", c)
	case 2:
		return of(g, c+" + 1", "-"+c, c+" * 1.0", "CAST("+c+" AS TEXT)", "CAST("+c+" AS REAL)", "0.0 * -1")
	case 3:
		return fmt.Sprintf("(SELECT max(%s) FROM %s)", c, t.name)
	case 4:
		return of(g, "upper(", "lower(", "trim(", "hex(", "abs(", "length(") + c + ")"
	case 5:
		return x.expression(nil)
	default:
		return g.column(t).name
	}
}

// condition draws the condition after WHERE.
func (x *text) condition(t *table) string {
	g := x.g
	c := g.column(t)
	switch g.rnd.IntN(10) {
	case 0:
		return c.name + of(g, " IS NULL", " IS NOT NULL", " IN (1, 2, 'a', NULL)", " LIKE 'a%'", " BETWEEN 1 AND 3")
	case 1:
		return fmt.Sprintf("rowid %s %d", of(g, "=", "<", ">"), 1+g.rnd.IntN(6))
	case 2:
		u := g.table()
		return fmt.Sprintf("%s IN (SELECT %s FROM %s)", c.name, g.column(u).name, u.name)
	case 3:
		return "1"
	case 4:
		return fmt.Sprintf("%s = (SELECT max(%s) FROM %s)", c.name, c.name, t.name)
	default:
		return c.name + " " + of(g, "=", "=", "=", "<>", ">", "<=", "IS") + " " + x.put(g.valueFor(c))
	}
}
