package sqlbody

import (
	"strings"

	"rideshare/internal/dbaas"
)

// OnlyReads reports whether every statement is certainly a read, judged by its words. Reads are SELECT, VALUES,
// EXPLAIN, WITH unless a change follows, and a text without a statement. Everything else counts as a write: a slave
// would reject a change that was mistaken for a read, and the client would see that error.
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
	for {
		switch w.next() {
		case "":
			return true
		case ";":
		case "SELECT", "VALUES", "EXPLAIN":
			if strings.IndexByte(w.sql, ';') < 0 { // nothing can follow
				return true
			}
			w.end()
		case "WITH":
			if w.change() {
				return false
			}
		default:
			return false
		}
	}
}

// words splits a statement into words as the engine does. Source: https://www.sqlite.org/lang_keywords.html and
// https://www.sqlite.org/lang_comment.html
type words struct{ sql string }

// end skips the rest of a statement.
func (w *words) end() {
	for word := w.next(); word != "" && word != ";"; {
		word = w.next()
	}
}

// change reports whether a word that changes rows follows in the same statement, and skips the statement if not. Used
// as names these words must be quoted, except REPLACE, which is also the name of a function.
func (w *words) change() bool {
	for word := w.next(); word != "" && word != ";"; word = w.next() {
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

// next returns the next word in capitals, or else the next character that is not part of a word. At the end it returns
// the empty string. It skips comments, texts and quoted names; for a text or a quoted name it returns the quote.
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
		w.until(quote) // a doubled quote ends one text and begins another; that makes no difference here
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

// until skips everything up to and including end.
func (w *words) until(end string) {
	_, w.sql, _ = strings.Cut(w.sql, end)
}

func isWordByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '$' || c >= 0x80
}
