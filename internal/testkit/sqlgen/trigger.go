package sqlgen

import (
	"fmt"
	"strings"
)

// createTrigger draws a trigger on a table or, seldom, on a view.
func (g *Generator) createTrigger() Statement {
	t := g.table()
	event := of(g, "INSERT", "UPDATE", "DELETE", "UPDATE OF "+g.column(t).name)
	on, when := t.name, of(g, "BEFORE", "AFTER", "AFTER")
	if g.chance(20) {
		on, when = one(g, viewNames), "INSTEAD OF"
		t = &table{name: on, columns: []column{{name: "a"}, {name: "b"}}}
		if strings.HasPrefix(event, "UPDATE OF") {
			event = "UPDATE"
		}
	}
	row := "new"
	if event == "DELETE" {
		row = "old"
	}
	var body strings.Builder
	for range 1 + g.rnd.IntN(2) {
		body.WriteString(g.triggered(t, row) + "; ")
	}
	condition := g.sometimes(25, fmt.Sprintf(" WHEN %s.%s IS NOT %s", row, g.column(t).name, literal(g.value())))
	return schema(fmt.Sprintf("CREATE TRIGGER %s%s %s %s ON %s%s%s BEGIN %sEND", g.ifNotExists(), one(g, triggerNames), when, event, on,
		g.sometimes(30, " FOR EACH ROW"), condition, body.String()))
}

// triggered draws one statement of a trigger's body; row is new or old.
func (g *Generator) triggered(t *table, row string) string {
	u := g.table()
	mine := row + "." + g.column(t).name
	other := g.column(u).name
	switch g.rnd.IntN(8) {
	case 0, 1, 2:
		return fmt.Sprintf("INSERT %sINTO %s(%s) VALUES(%s)", g.or(), u.name, other, of(g, mine, mine, literal(g.value()), g.looseOr("random()", mine)))
	case 3:
		return fmt.Sprintf("UPDATE %s%s SET %s = %s WHERE %s = %s", g.or(), u.name, other, mine, g.column(u).name, mine)
	case 4:
		return fmt.Sprintf("DELETE FROM %s WHERE %s = %s", u.name, other, mine)
	case 5, 6:
		what := of(g, "IGNORE", "IGNORE", "FAIL, 'no: fail'", "ABORT, 'no: abort'", "ROLLBACK, 'no: rollback'")
		return fmt.Sprintf("SELECT RAISE(%s) WHERE %s = %s", what, mine, literal(g.value()))
	default:
		return fmt.Sprintf("INSERT INTO %s SELECT * FROM %s LIMIT 2", u.name, g.table().name)
	}
}

// or draws a statement's own conflict clause.
func (g *Generator) or() string { return g.sometimes(35, "OR "+one(g, clauses)+" ") }
