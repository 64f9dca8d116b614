package sqlbody

import (
	"cmp"
	"slices"
	"strings"

	"rideshare/internal/dbaas"
	"rideshare/internal/strictjson"
)

// pair is a column and the value that a client gave for it.
type pair struct {
	column string
	value  dbaas.Value
}

// form is a parsed body of the structured form. A nil list means that the field was not sent.
type form struct {
	query     string
	table     string
	columns   []string
	values    []pair
	condition []pair
}

// ParseRead turns the body of a structured read into one SELECT. Result columns keep the names that the client used.
// Every error is a *dbaas.Error with CodeInvalid.
func ParseRead(body []byte) (dbaas.Statement, error) {
	f, err := parse(body, readFields)
	if err != nil {
		return dbaas.Statement{}, err
	}
	if f.table == "" {
		return dbaas.Statement{}, invalid("table is missing")
	}
	if len(f.columns) == 0 {
		return dbaas.Statement{}, invalid("columns is missing or empty")
	}
	return f.selectRows()
}

// ParseWrite turns the body of a structured write into one INSERT, UPDATE or
// DELETE. Every error is a *dbaas.Error with CodeInvalid.
func ParseWrite(body []byte) (dbaas.Statement, error) {
	f, err := parse(body, writeFields)
	if err != nil {
		return dbaas.Statement{}, err
	}
	if f.table == "" {
		return dbaas.Statement{}, invalid("table is missing")
	}
	if f.query != "delete" && len(f.values) == 0 {
		return dbaas.Statement{}, invalid("values is missing or empty")
	}
	if f.query != "insert" && len(f.condition) == 0 {
		return dbaas.Statement{}, invalid("condition is missing or empty: a structured %s needs one", f.query)
	}
	switch f.query {
	case "insert":
		if f.condition != nil {
			return dbaas.Statement{}, invalid("an insert takes no condition")
		}
		return f.insert(), nil
	case "update":
		return f.update(), nil
	case "delete":
		if f.values != nil {
			return dbaas.Statement{}, invalid("a delete takes no values")
		}
		return f.remove(), nil
	default:
		return dbaas.Statement{}, invalid(`query is "insert", "update" or "delete"`)
	}
}

type fieldReader func(*form, *strictjson.Reader, string) error

// readFields returns the reader of a field of a structured read by the field's name, or nil for an unknown field.
// writeFields does the same for a write.
func readFields(key string) fieldReader {
	switch key {
	case "table":
		return (*form).readTable
	case "columns":
		return (*form).readColumns
	case "condition", "where":
		return (*form).readCondition
	default:
		return nil
	}
}

func writeFields(key string) fieldReader {
	switch key {
	case "query":
		return (*form).readQuery
	case "table":
		return (*form).readTable
	case "values":
		return (*form).readValues
	case "condition", "where":
		return (*form).readCondition
	case "insert", "delete":
		return (*form).refuseSQL
	default:
		return nil
	}
}

func parse(body []byte, fields func(string) fieldReader) (f form, err error) {
	err = strictjson.Read(body, func(r *strictjson.Reader) error {
		if r.Kind() != '{' {
			return r.Wrong("the body is one JSON object")
		}
		return r.Object(func(key string) error {
			read := fields(key)
			if read == nil {
				return invalid("unknown field %q", key)
			}
			return read(&f, r, key)
		})
	})
	return f, err
}

func (f *form) readQuery(r *strictjson.Reader, key string) (err error) {
	f.query, err = name(r, key)
	return err
}

func (f *form) readTable(r *strictjson.Reader, key string) (err error) {
	if f.table, err = name(r, key); err != nil {
		return err
	}
	// Names with these prefixes are not application tables: they are SQLite's own tables, its pragmas as tables, and
	// the system's log. For clients of the structured form they do not exist.
	for _, prefix := range []string{"sqlite_", "pragma_", "rs_"} {
		if len(f.table) >= len(prefix) && strings.EqualFold(f.table[:len(prefix)], prefix) {
			return invalid("no such table: %s", f.table)
		}
	}
	return checkName("table", f.table)
}

func (f *form) readColumns(r *strictjson.Reader, key string) error {
	if r.Kind() != '[' {
		return r.Wrong("columns is an array of names")
	}
	err := r.Array(func() error {
		column, err := name(r, key)
		if err != nil {
			return err
		}
		f.columns = append(f.columns, column)
		return checkName("column", column)
	})
	if err != nil {
		return err
	}
	if column, twice := repeated(f.columns); twice {
		return invalid("column %q is asked for twice", column)
	}
	return nil
}

func (f *form) readValues(r *strictjson.Reader, key string) (err error) {
	f.values, err = pairs(r, key)
	return err
}

func (f *form) readCondition(r *strictjson.Reader, key string) (err error) {
	if f.condition != nil {
		return invalid("condition and where mean the same: send one of them")
	}
	if r.Kind() == '"' {
		return f.refuseSQL(r, key)
	}
	f.condition, err = pairs(r, key)
	return err
}

// refuseSQL rejects the fields in which older clients sent SQL text.
func (f *form) refuseSQL(_ *strictjson.Reader, key string) error {
	return invalid("SQL text in %q is not taken here: send SQL with bound parameters to /db/query, /db/execute or /db/request", key)
}

// name reads a value of key that must be a string.
func name(r *strictjson.Reader, key string) (string, error) {
	if r.Kind() != '"' {
		return "", r.Wrong("a name in " + key + " is not a string")
	}
	return r.Text()
}

// pairs reads an object of columns and values, ordered by column. The result is never nil.
func pairs(r *strictjson.Reader, key string) ([]pair, error) {
	if r.Kind() != '{' {
		return nil, r.Wrong(key + " is an object of columns and values")
	}
	pairs := []pair{}
	err := r.Object(func(column string) error {
		if err := checkName("column", column); err != nil {
			return err
		}
		value, err := scalar(r)
		if err != nil {
			return err
		}
		pairs = append(pairs, pair{column: column, value: value})
		return nil
	})
	slices.SortFunc(pairs, func(a, b pair) int { return cmp.Compare(a.column, b.column) })
	return pairs, err
}

// checkName rejects names that cannot be quoted: the empty name, and a name with a zero byte, where SQLite would end
// the whole statement.
func checkName(what, name string) error {
	if name == "" {
		return invalid("the name of a %s is empty", what)
	}
	if strings.IndexByte(name, 0) >= 0 {
		return invalid("the name of a %s holds a zero byte", what)
	}
	return nil
}
