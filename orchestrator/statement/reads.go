package statement

import (
	"strings"

	"rideshare/internal/dbaas"
)

// OnlyReads reports whether every statement is a read beyond doubt, by its words: SELECT and VALUES are, WITH is unless it
// leads to a change, and so is EXPLAIN of them. Everything else is taken for a write. A change that were
// taken for a read would be refused by the slave, with an error that its client sees.
func OnlyReads(statements []dbaas.Statement) bool {
	for i := range statements {
		if !isRead(statements[i].SQL) {
			return false
		}
	}
	return true
}

func isRead(sql string) bool {
	w := words{sql: sql}
	word := w.next()
	if word == "EXPLAIN" {
		if word = w.next(); word == "QUERY" {
			w.next() // PLAN
			word = w.next()
		}
	}
	switch word {
	case "SELECT", "VALUES":
		return true
	case "WITH":
		return !w.change()
	default:
		return false
	}
}

// words takes a statement apart as the engine does. Source: https://www.sqlite.org/lang_keywords.html and
// https://www.sqlite.org/lang_comment.html
type words struct{ sql string }

// change reports whether a word follows that changes rows: as names these words have to be quoted, but for REPLACE, which is a
// function's name too.
func (w *words) change() bool {
	for word := w.next(); word != ""; word = w.next() {
		switch word {
		case "INSERT", "UPDATE", "DELETE":
			return true
		case "REPLACE":
			if rest := *w; rest.next() == "INTO" {
				return true
			}
		}
	}
	return false
}

// next returns the next word in capitals, or a character that belongs to none, and the empty string at the end. Comments, texts
// and quoted names are no words: of the latter two it returns the quote.
func (w *words) next() string {
	w.skip()
	if w.sql == "" {
		return ""
	}
	n := 0
	for n < len(w.sql) && isWordByte(w.sql[n]) {
		n++
	}
	if n > 0 {
		return strings.ToUpper(w.take(n))
	}
	quote := w.take(1)
	switch quote {
	case "'", `"`, "`":
		w.until(quote) // a doubled quote ends one text and begins another, which is the same here
	case "[":
		w.until("]")
	}
	return quote
}

// skip skips blanks and comments.
func (w *words) skip() {
	for {
		w.sql = strings.TrimLeft(w.sql, " \t\n\f\r")
		switch {
		case strings.HasPrefix(w.sql, "--"):
			w.until("\n")
		case strings.HasPrefix(w.sql, "/*"):
			w.take(2)
			w.until("*/")
		default:
			return
		}
	}
}

func (w *words) take(n int) string {
	s := w.sql[:n]
	w.sql = w.sql[n:]
	return s
}

// until skips what stands before end, and end.
func (w *words) until(end string) {
	_, w.sql, _ = strings.Cut(w.sql, end)
}

func isWordByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '$' || c >= 0x80
}
