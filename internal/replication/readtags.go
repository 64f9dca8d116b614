package replication

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"rideshare/internal/dbaas"
	"rideshare/internal/readtags"
	"rideshare/internal/sqlite"
	"rideshare/internal/sqltext"
)

// readPlan says how to compute the tags of one prepared query.
type readPlan struct {
	tables readtags.Tags // a tag for each table; empty if the query cannot be cached
	table  string        // the only table, if its first key columns are bound with "="
	bound  []boundColumn // the bound key columns, in the order of the key
	all    bool          // bound is the whole key, so that the query returns one row at most
}

// boundColumn is a column of a key and the value that it must have.
type boundColumn struct {
	affinity affinity
	value    operand
}

// ReadTags returns the tags of the read that c has just run with AppendRead, in a transaction that is still open. Only
// an entry that touches one of the tags can change the answer. ReadTags returns no tags if the answer cannot be cached:
// it may change without an entry, or SQL leaves open which rows it has.
func ReadTags(c *sqlite.Conn, read *dbaas.Read) (readtags.Tags, error) {
	f := c.Facts()
	if f == nil || len(read.Statements) != 1 {
		return nil, nil
	}
	plan, ok := f.Memo.(*readPlan)
	if !ok {
		var err error
		if plan, err = planRead(c, f); err != nil {
			return nil, err
		}
		f.Memo = plan
	}
	return plan.tags(&read.Statements[0]), nil
}

// tags returns the tags of one run of the query.
func (p *readPlan) tags(st *dbaas.Statement) readtags.Tags {
	if len(p.bound) == 0 {
		return p.tables
	}
	values := make([]dbaas.Value, 0, 4)
	for i := range p.bound {
		v, certain := p.bound[i].stored(st)
		if !certain {
			return p.tables
		}
		values = append(values, v)
	}
	kind := readtags.KindPrefix
	if p.all {
		kind = readtags.KindRow
	}
	return make(readtags.Tags, 0, 2*readtags.TagBytes).Add(kind, readtags.Key(p.table, values...)).Add(readtags.KindWhole, readtags.Whole(p.table))
}

// planRead finds out which tables and key values the query depends on.
func planRead(c *sqlite.Conn, f *sqlite.Facts) (*readPlan, error) {
	p := &readPlan{}
	if f.Rowid || slices.ContainsFunc(f.Calls, func(name string) bool { return !deterministic[strings.ToLower(name)] }) {
		return p, nil
	}
	open := leavesOpen(f.SQL)
	var definition string // SQL of the last table
	tables := readtags.Tags{}
	for _, name := range f.Tables {
		kind, sql, err := describe(c, name)
		if err != nil {
			return nil, err
		}
		switch {
		case kind == "view":
			open = open || leavesOpen(sql)
		case kind == "table" && !internal(name) && !hasPrefixFold(name, "sqlite_"):
			tables, definition = tables.Add(readtags.KindTable, readtags.Table(name)), sql
		default:
			return p, nil
		}
	}
	if len(f.Tables) == 1 && tables.Len() == 1 {
		if err := p.bind(c, f, definition); err != nil {
			return nil, err
		}
	}
	if open && !p.all { // with at most one row, LIMIT leaves nothing open
		return &readPlan{}, nil
	}
	p.tables = tables
	return p, nil
}

// describe returns the kind of name in the schema, such as table or view, and its definition.
func describe(c *sqlite.Conn, name string) (kind, sql string, err error) {
	err = c.Query(`SELECT type, sql FROM sqlite_master WHERE type IN('table','view') AND name=?`, func(r sqlite.Row) error {
		kind, sql = r.Text(0), r.Text(1)
		return nil
	}, dbaas.Text(name))
	return kind, sql, err
}

func hasPrefixFold(s, start string) bool {
	return len(s) >= len(start) && strings.EqualFold(s[:len(start)], start)
}

// leavesOpen reports whether SQL may leave open which rows a query returns, because a LIMIT lacks an ORDER BY of the same
// SELECT.
func leavesOpen(sql string) bool {
	ordered, before := []bool{false}, "" // by depth of parentheses
	for word := range sqltext.Words(sql) {
		last := len(ordered) - 1
		switch {
		case before == ":" || before == "@": // the name of a parameter
		case word == "(":
			ordered = append(ordered, false)
		case word == ")" && last > 0:
			ordered = ordered[:last]
		case strings.EqualFold(word, "ORDER"):
			ordered[last] = true
		case strings.EqualFold(word, "LIMIT") && !ordered[last]:
			return true
		}
		before = word
	}
	return false
}

// bind finds the leading key columns that the query binds with "=". It binds none if the table's definition names a
// collation; the read then has only the table's tag.
func (p *readPlan) bind(c *sqlite.Conn, f *sqlite.Facts, definition string) error {
	q, ok := parseKeyRead(f.SQL, f.Params)
	if !ok || !sqltext.SameName(q.table, f.Tables[0]) || strings.Contains(strings.ToUpper(definition), "COLLATE") {
		return nil
	}
	more, key := true, 0
	err := c.Query(`SELECT name, type FROM pragma_table_xinfo(?) WHERE pk>0 ORDER BY pk`, func(r sqlite.Row) error {
		key++
		i := slices.IndexFunc(q.equal, func(e equality) bool { return sqltext.SameName(e.column, r.Text(0)) })
		kind := affinityOf(r.Text(1))
		if more = more && i >= 0 && kind != affinityUncertain; more {
			p.bound = append(p.bound, boundColumn{affinity: kind, value: q.equal[i].value})
		}
		return nil
	}, dbaas.Text(f.Tables[0]))
	p.table, p.all = f.Tables[0], key > 0 && len(p.bound) == key
	return err
}

// touch adds the tags of the row, for its key before and after the change.
func (k *Capture) touch(t *table, ch *sqlite.RowChange) {
	k.touched.Changed()
	if ch.Op != sqlite.RowInsert {
		k.touchKey(t, ch.From, ch.Old)
	}
	if ch.Op != sqlite.RowDelete {
		k.touchKey(t, ch.To, ch.New)
	}
}

func (k *Capture) touchKey(t *table, rowid int64, column func(int32) (dbaas.Value, error)) {
	k.touched.Row(t.name)
	if t.rowidKey {
		v := dbaas.Integer(rowid)
		k.touched.Key(&v)
	}
	for _, i := range t.primary {
		v, err := column(i)
		if err != nil {
			k.err = err
			return
		}
		k.touched.Key(&v)
	}
}

// affinity is the affinity of a column. Source: https://www.sqlite.org/datatype3.html section 3.1
type affinity uint8

const (
	affinityUncertain affinity = iota
	affinityNumeric            // INTEGER and NUMERIC
	affinityReal               // values compare like those of affinityNumeric
	affinityText
	affinityBlob
)

func affinityOf(declared string) affinity {
	declared = sqltext.Fold(declared)
	has := func(part string) bool { return strings.Contains(declared, part) }
	switch {
	case declared == "any": // no affinity in a STRICT table, NUMERIC in others
		return affinityUncertain
	case has("int"):
		return affinityNumeric
	case has("char"), has("clob"), has("text"):
		return affinityText
	case has("blob"), declared == "":
		return affinityBlob
	case has("real"), has("floa"), has("doub"): //nolint:misspell // the engine looks for these parts of words
		return affinityReal
	default:
		return affinityNumeric
	}
}

// maxDigits is the number of characters of an integer that always fit into 64 bits.
const maxDigits = 18

var wholeNumber = regexp.MustCompile(`^(?:0|-?[1-9][0-9]*)$`)

// stored returns the value that the column has in a matching row. certain is false for NULL, and if the engine would
// convert the value in a way that stored does not imitate.
func (b *boundColumn) stored(st *dbaas.Statement) (v dbaas.Value, certain bool) {
	if v, certain = b.value.of(st); !certain || v.Kind == dbaas.KindNull {
		return v, false
	}
	switch {
	case (b.affinity == affinityNumeric || b.affinity == affinityReal) && v.Kind == dbaas.KindText:
		if len(v.Text) > maxDigits || !wholeNumber.MatchString(v.Text) {
			return v, false
		}
		n, err := strconv.ParseInt(v.Text, 10, 64)
		return dbaas.Integer(n), err == nil
	case b.affinity == affinityText && v.Kind == dbaas.KindInteger:
		return dbaas.Text(strconv.FormatInt(v.Int, 10)), true
	case b.affinity == affinityText && v.Kind == dbaas.KindFloat:
		return v, false
	}
	return v, true
}

// deterministic lists functions whose result depends only on their arguments.
var deterministic = func() map[string]bool {
	names := map[string]bool{}
	for name := range strings.FieldsSeq(`abs avg char coalesce concat concat_ws count format glob hex ifnull iif instr json
		json_array json_array_length json_extract json_object json_quote json_type json_valid -> ->> length like lower ltrim max
		min nullif octet_length printf quote replace round rtrim sign substr substring sum total trim typeof unhex unicode upper`) {
		names[name] = true
	}
	return names
}()
