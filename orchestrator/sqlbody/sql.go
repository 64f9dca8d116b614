package sqlbody

import (
	"strconv"
	"strings"

	"rideshare/internal/dbaas"
)

// countAll is the only expression allowed among the columns of a read.
const countAll = "count(*)"

// builder writes SQL text and collects its parameters.
type builder struct {
	strings.Builder
	args []dbaas.Value
}

// textRoom is how many bytes of SQL text are allocated at the start. Most statements of the structured form need no
// more.
const textRoom = 192

// newBuilder returns a builder with room for params parameters.
func newBuilder(params int) *builder {
	b := &builder{}
	if params > 0 {
		b.args = make([]dbaas.Value, 0, params)
	}
	b.Grow(textRoom)
	return b
}

// name writes a quoted name.
func (b *builder) name(name string) {
	b.WriteByte('"')
	b.WriteString(strings.ReplaceAll(name, `"`, `""`))
	b.WriteByte('"')
}

// column writes "table"."column". It is used wherever SQLite would treat an unknown quoted name as text: "nope" =
// 'nope' would be true for every row, while "t"."nope" is an error.
func (b *builder) column(table, column string) {
	b.name(table)
	b.WriteByte('.')
	b.name(column)
}

// bind writes a numbered parameter.
func (b *builder) bind(v dbaas.Value) {
	b.args = append(b.args, v)
	b.WriteByte('?')
	b.WriteString(strconv.Itoa(len(b.args)))
}

// where writes equalities joined by AND. A value of NULL becomes IS NULL, so that it matches rows that have NULL there.
func (b *builder) where(table string, condition []pair) {
	for i, p := range condition {
		if i == 0 {
			b.WriteString(" WHERE ")
		} else {
			b.WriteString(" AND ")
		}
		b.column(table, p.column)
		if p.value.Kind == dbaas.KindNull {
			b.WriteString(" IS NULL")
			continue
		}
		b.WriteString(" = ")
		b.bind(p.value)
	}
}

func (b *builder) statement() dbaas.Statement {
	return dbaas.Statement{SQL: b.String(), Args: b.args}
}

func (f *form) selectRows() (dbaas.Statement, error) {
	b := newBuilder(len(f.condition))
	b.WriteString("SELECT ")
	for i, column := range f.columns {
		if i > 0 {
			b.WriteString(", ")
		}
		if column == countAll {
			if len(f.columns) > 1 {
				return dbaas.Statement{}, invalid("%s stands alone in columns", countAll)
			}
			b.WriteString(countAll)
		} else {
			b.column(f.table, column)
		}
		b.WriteString(" AS ")
		b.name(column)
	}
	b.WriteString(" FROM ")
	b.name(f.table)
	b.where(f.table, f.condition)
	return b.statement(), nil
}

func (f *form) insert() dbaas.Statement {
	b := newBuilder(len(f.values))
	b.WriteString("INSERT INTO ")
	b.name(f.table)
	b.WriteString(" (")
	for i, p := range f.values {
		if i > 0 {
			b.WriteString(", ")
		}
		b.name(p.column)
	}
	b.WriteString(") VALUES (")
	for i, p := range f.values {
		if i > 0 {
			b.WriteString(", ")
		}
		b.bind(p.value)
	}
	b.WriteByte(')')
	return b.statement()
}

func (f *form) update() dbaas.Statement {
	b := newBuilder(len(f.values) + len(f.condition))
	b.WriteString("UPDATE ")
	b.name(f.table)
	b.WriteString(" SET ")
	for i, p := range f.values {
		if i > 0 {
			b.WriteString(", ")
		}
		b.name(p.column)
		b.WriteString(" = ")
		if n, ok := increment(p); ok {
			b.increment(f.table, p, n)
		} else {
			b.bind(p.value)
		}
	}
	b.where(f.table, f.condition)
	return b.statement()
}

func (f *form) remove() dbaas.Statement {
	b := newBuilder(len(f.condition))
	b.WriteString("DELETE FROM ")
	b.name(f.table)
	b.where(f.table, f.condition)
	return b.statement()
}
