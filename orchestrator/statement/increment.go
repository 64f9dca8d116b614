package statement

import (
	"strconv"
	"strings"

	"rideshare/internal/dbaas"
)

// increment reports whether p says "<column> + <integer>" of its own column, as
// older clients write a counter, and the integer.
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
		return 0, false // ParseInt would take a second sign.
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	return n, err == nil
}

// increment writes the new value of p's column: its own value and n if the
// column is declared as an integer, the text as it was sent if not, so that
// "c + 1" stays a text in a column of texts. The schema is asked inside the
// statement, since nobody outside can know that it did not change meanwhile.
// INT anywhere in the type is SQLite's own rule for integers (datatype3, 3.1).
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
