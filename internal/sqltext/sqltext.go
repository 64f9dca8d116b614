// Package sqltext splits SQL text into statements and words, and compares names, without the engine.
package sqltext

import (
	"iter"
	"strings"
)

// Statement is the text of a statement, without its final semicolon and without the blanks and comments around it, and
// the line of its first word.
type Statement struct {
	SQL  string
	Line int
}

// Splitter splits text that arrives in pieces into statements. A statement ends with a semicolon outside of quotes,
// comments and the bodies of triggers, as sqlite3_complete defines it. Source:
// https://www.sqlite.org/c3ref/complete.html
//
// The zero Splitter is ready to use. It is not safe for concurrent use. Statements share the memory of the pieces.
type Splitter struct {
	parts  []string // the begun statement's text from earlier pieces
	length int      // the total length of parts
	size   int      // the length of the begun statement up to its last word
	line   int      // the line of its first word
	state  state
	open   string // the end of the quote or comment that is open, or ""
}

// state says what the words of the statement so far are.
type state byte

const (
	atStart   state = iota // none
	inBody                 // a statement that ends at the next semicolon
	inExplain              // EXPLAIN
	inCreate               // CREATE, CREATE TEMP
	inTrigger              // CREATE TRIGGER ...
	afterSemi              // CREATE TRIGGER ...;
	afterEnd               // CREATE TRIGGER ...; END
)

// token is a kind of word.
type token byte

const (
	semicolon token = iota
	other
	explain
	create
	temp
	trigger
	end
	within // the rest of a quote that began as other
	blank  // white space or a comment; it changes no state
)

// transitions has the next state by state and token.
var transitions = [...][within]state{
	atStart:   {atStart, inBody, inExplain, inCreate, inBody, inBody, inBody},
	inBody:    {atStart, inBody, inBody, inBody, inBody, inBody, inBody},
	inExplain: {atStart, inExplain, inBody, inCreate, inBody, inBody, inBody},
	inCreate:  {atStart, inBody, inBody, inBody, inCreate, inTrigger, inBody},
	inTrigger: {afterSemi, inTrigger, inTrigger, inTrigger, inTrigger, inTrigger, inTrigger},
	afterSemi: {afterSemi, inTrigger, inTrigger, inTrigger, inTrigger, inTrigger, afterEnd},
	afterEnd:  {atStart, inTrigger, inTrigger, inTrigger, inTrigger, inTrigger, inTrigger},
}

// keywords are the words that have a token of their own.
var keywords = map[string]token{
	"EXPLAIN": explain, "CREATE": create, "TEMP": temp, "TEMPORARY": temp, "TRIGGER": trigger, "END": end,
}

// Statements yields the statements of a text in order. The last one need not end with a semicolon.
func Statements(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		var s Splitter
		for st := range s.Feed(text, 1) {
			if !yield(st.SQL) {
				return
			}
		}
		if st, ok := s.Rest(); ok {
			yield(st.SQL)
		}
	}
}

// Words yields the words and signs of a text in order, without quoted names, texts and comments.
func Words(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		var s Splitter
		for at := 0; at < len(text); {
			quoted := s.open != ""
			t, stop := s.next(text, at)
			if t != blank && !quoted && s.open == "" && !yield(text[at:stop]) {
				return
			}
			at = stop
		}
	}
}

// Terminated returns the first statement of a text, with a semicolon after it. Other statements can follow it. Comments
// after the last word of the statement are left out, since such a comment could swallow the semicolon. If the text has no
// statement, Terminated returns "".
func Terminated(text string) string {
	for sql := range Statements(text) {
		return sql + ";"
	}
	return ""
}

// Pending reports whether a statement or a comment has begun and not ended.
func (s *Splitter) Pending() bool { return s.state != atStart || s.open != "" }

// Rest returns the statement that has begun and not ended with a semicolon, and reports whether there is such a
// statement.
func (s *Splitter) Rest() (Statement, bool) {
	return Statement{strings.Join(s.parts, "")[:s.size], s.line}, s.state != atStart
}

// Feed takes the next piece and yields the statements that end in it. line is the line number of the piece. If the
// caller stops before the last statement, it must not use the Splitter any more.
func (s *Splitter) Feed(text string, line int) iter.Seq[Statement] {
	return func(yield func(Statement) bool) {
		from := 0
		for at := 0; at < len(text); {
			t, stop := s.next(text, at)
			begin := at
			if at = stop; t == blank {
				continue
			}
			before := s.state
			if before == atStart {
				from, s.line = begin, line
			}
			if t != within {
				s.state = transitions[before][t]
			}
			if s.state != atStart {
				s.size = s.length + stop - from
			} else if before != atStart && !yield(s.take(text[from:begin])) { // otherwise it is a semicolon alone
				return
			}
		}
		if s.state != atStart {
			s.parts, s.length = append(s.parts, text[from:]), s.length+len(text)-from
		}
	}
}

// take returns the statement that ends with this part.
func (s *Splitter) take(last string) Statement {
	text := last
	if len(s.parts) > 0 {
		text = strings.Join(append(s.parts, last), "")
	}
	st := Statement{text[:s.size], s.line}
	s.parts, s.length, s.size = nil, 0, 0
	return st
}

// next returns the token at a position of the piece, and where it ends.
func (s *Splitter) next(text string, at int) (token, int) {
	if s.open != "" {
		return s.skip(text, at)
	}
	switch c := text[at]; {
	case c == ';':
		return semicolon, at + 1
	case strings.IndexByte(" \t\r\n\f", c) >= 0:
		return blank, at + 1
	case c == '\'' || c == '"' || c == '`':
		s.open = text[at : at+1]
		return other, at + 1
	case c == '[':
		s.open = "]"
		return other, at + 1
	case strings.HasPrefix(text[at:], "--"):
		s.open = lineEnd
		return blank, at + 2
	case strings.HasPrefix(text[at:], "/*"):
		s.open = commentEnd
		return blank, at + 2
	case !inWord(c):
		return other, at + 1
	}
	stop := at + 1
	for stop < len(text) && inWord(text[stop]) {
		stop++
	}
	if t, ok := keywords[strings.ToUpper(text[at:stop])]; ok {
		return t, stop
	}
	return other, stop
}

// The ends of comments.
const (
	lineEnd    = "\n"
	commentEnd = "*/"
)

// skip skips the open quote or comment.
func (s *Splitter) skip(text string, at int) (token, int) {
	t := within
	if s.open == lineEnd || s.open == commentEnd {
		t = blank
	}
	n := strings.Index(text[at:], s.open)
	if n < 0 {
		return t, len(text)
	}
	stop := at + n + len(s.open)
	s.open = ""
	return t, stop
}

func inWord(c byte) bool {
	return c >= 0x80 || c == '_' || c == '$' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}
