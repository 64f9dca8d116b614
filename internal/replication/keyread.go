package replication

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"rideshare/internal/dbaas"
	"rideshare/internal/sqltext"
)

// keyRead is a query of the only form that gets narrower tags than the table's:
//
//	SELECT columns FROM table WHERE column = value AND ... LIMIT number
//
// Columns are names or "*", optionally with their table and a name for the result. Values are parameters, whole numbers
// or texts. LIMIT may be missing; its number is at least 1. In this form the answer depends only on rows that have these values. parseKeyRead refuses every other
// query.
type keyRead struct {
	table string
	equal []equality
}

// equality is one condition of a keyRead.
type equality struct {
	column string
	value  operand
}

// operand is a literal, or a parameter with its index or name.
type operand struct {
	literal *dbaas.Value
	index   int
	name    string
}

// of returns the operand's value in one run of the statement.
func (o *operand) of(st *dbaas.Statement) (v dbaas.Value, found bool) {
	switch {
	case o.literal != nil:
		return *o.literal, true
	case o.name == "" || len(st.Named) == 0:
		if o.index < len(st.Args) {
			return st.Args[o.index], true
		}
	default:
		for i := range st.Named {
			if st.Named[i].Name == o.name {
				return st.Named[i].Value, true
			}
		}
	}
	return v, false
}

// The first groups of sqlToken: what kind of token matched.
const (
	tokenName = 1 + iota
	tokenQuoted
	tokenText
	tokenNumber
	tokenParam
	tokenSign
)

var sqlToken = regexp.MustCompile(`^[ \t\r\n]*(?:([A-Za-z_][A-Za-z0-9_]*)|"((?:[^"]|"")*)"|'((?:[^']|'')*)'|([0-9]{1,18})(?:[^0-9A-Za-z_.]|$)|(\?[0-9]*|[:@$][A-Za-z_][A-Za-z0-9_]*)|([,.=*;]))`)

// keyReader reads the tokens of a statement. failed is set at the first error.
type keyReader struct {
	rest   string
	params []string
	next   int // the ordinal of the next parameter without a number
	failed bool
}

// parseKeyRead parses a statement. params are the names of its parameters, as the engine numbers them. ok is false if
// the statement does not have the form of a keyRead.
func parseKeyRead(sql string, params []string) (q keyRead, ok bool) {
	if len(sql) > maxKeyRead {
		return q, false
	}
	r := &keyReader{rest: sql, params: params}
	r.word("SELECT")
	for more := true; more && !r.failed; more = r.skip(",") {
		r.resultColumn()
	}
	r.word("FROM")
	q.table = r.name()
	r.word("WHERE")
	for more := true; more && !r.failed; more = r.skipWord("AND") {
		e := equality{column: r.column(q.table)}
		r.failed = !r.skip("=") || r.failed
		e.value = r.operand()
		q.equal = append(q.equal, e)
	}
	if r.skipWord("LIMIT") {
		n := r.operand()
		r.failed = r.failed || n.literal == nil || n.literal.Int < 1
	}
	r.skip(";")
	return q, !r.failed && strings.Trim(r.rest, " \t\r\n") == ""
}

// maxKeyRead is the length in bytes of the longest statement that is parsed.
const maxKeyRead = 4 << 10

// peek returns the kind and the text of the next token, and the rest of the statement after it.
func (r *keyReader) peek() (kind int, text, rest string) {
	at := sqlToken.FindStringSubmatchIndex(r.rest)
	for kind = tokenName; at != nil && kind <= tokenSign; kind++ {
		if from, to := at[2*kind], at[2*kind+1]; from >= 0 {
			end := to
			if kind == tokenQuoted || kind == tokenText {
				end++
			}
			return kind, r.rest[from:to], r.rest[end:]
		}
	}
	return 0, "", r.rest
}

func (r *keyReader) skip(sign string) bool {
	kind, text, rest := r.peek()
	if kind != tokenSign || text != sign {
		return false
	}
	r.rest = rest
	return true
}

func (r *keyReader) skipWord(word string) bool {
	kind, text, rest := r.peek()
	if kind != tokenName || !strings.EqualFold(text, word) {
		return false
	}
	r.rest = rest
	return true
}

func (r *keyReader) word(word string) { r.failed = !r.skipWord(word) || r.failed }

func (r *keyReader) name() string {
	kind, text, rest := r.peek()
	switch kind {
	case tokenName:
	case tokenQuoted:
		text = strings.ReplaceAll(text, `""`, `"`)
	default:
		r.failed = true
		return ""
	}
	r.rest = rest
	return text
}

func (r *keyReader) resultColumn() {
	if r.skip("*") {
		return
	}
	r.name()
	if r.skip(".") && !r.skip("*") {
		r.name()
	}
	if r.skipWord("AS") {
		r.name()
	}
}

// column reads a column of the table.
func (r *keyReader) column(table string) string {
	name := r.name()
	if !r.skip(".") {
		return name
	}
	r.failed = !sqltext.SameName(name, table) || r.failed
	return r.name()
}

func (r *keyReader) operand() (o operand) {
	kind, text, rest := r.peek()
	r.rest = rest
	switch kind {
	case tokenText:
		v := dbaas.Text(strings.ReplaceAll(text, "''", "'"))
		o.literal = &v
	case tokenNumber:
		n, err := strconv.ParseInt(text, 10, 64)
		v := dbaas.Integer(n)
		o.literal, r.failed = &v, r.failed || err != nil
	case tokenParam:
		return r.parameter(text)
	default:
		r.failed = true
	}
	return o
}

// parameter finds a parameter in the engine's list, which has the engine's numbering. Parameters without a number or
// name are counted from the left. They are accepted only if all parameters are of that kind.
func (r *keyReader) parameter(text string) (o operand) {
	if text != "?" {
		o.index = slices.Index(r.params, text)
		if text[0] != '?' {
			o.name = text[1:]
		}
	} else {
		o.index = r.next
		r.next++
		r.failed = r.failed || slices.ContainsFunc(r.params, func(name string) bool { return name != "" })
	}
	r.failed = r.failed || o.index < 0 || o.index >= len(r.params)
	return o
}
