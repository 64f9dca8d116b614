package sqlbody

import (
	"strconv"
	"strings"

	"rideshare/internal/dbaas"
)

// increment returns n and true if p sets its column to "<the same column> + <integer n>", which is how older clients
// increment a counter.
func increment(p pair) (int64, bool) {
	if p.value.Kind != dbaas.KindText {
		return 0, false
	}
	rest, ok := strings.CutPrefix(p.value.Text, p.column)
	if !ok {
		return 0, false
	}
	rest, ok = strings.CutPrefix(strings.TrimLeft(rest, " "), "+")
	if !ok {
		return 0, false
	}
	digits := strings.Trim(rest, " ")
	if strings.HasPrefix(digits, "+") {
		return 0, false // ParseInt would accept a second sign.
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	return n, err == nil
}

// increment writes the new value of p's column. If the column is declared as an integer, the new value is its old value
// plus n. Otherwise it is the text as sent, so that "c + 1" stays text in a text column. The statement itself looks up
// the declared type, since the schema may change before the statement runs. INT anywhere in the type is SQLite's own
// rule for integers (datatype3, 3.1).
func (b *builder) increment(table string, p pair, n int64) {
	b.WriteString("CASE WHEN EXISTS (SELECT 1 FROM pragma_table_info(")
	b.bind(dbaas.Text(table))
	b.WriteString(") WHERE name = ")
	b.bind(dbaas.Text(p.column))
	b.WriteString(" COLLATE NOCASE AND type LIKE '%INT%') THEN ")
	b.column(table, p.column)
	b.WriteString(" + ")
	b.bind(dbaas.Integer(n))
	b.WriteString(" ELSE ")
	b.bind(p.value)
	b.WriteString(" END")
}
