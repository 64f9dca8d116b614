package shell

import "strings"

// statement is the text of a statement, and the line of its first word.
type statement struct {
	sql  string
	line int
}

// splitter cuts lines into statements. A statement ends with a semicolon outside of quotes, comments and the bodies of
// triggers, as sqlite3_complete defines it. Source: https://www.sqlite.org/c3ref/complete.html
type splitter struct {
	text  strings.Builder // the statement so far
	line  int             // of its first word
	state state
	open  string // how the quote or comment ends that the last line left open, or ""
}

// state is what the words of the statement so far are.
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
	blank // also a comment; it changes no state
)

// transitions has the next state for a state and a token that is not blank.
var transitions = [...][blank]state{
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

// pending reports whether a statement or a comment has begun and not ended.
func (s *splitter) pending() bool { return s.state != atStart || s.open != "" }

// rest returns the statement that has begun and has no semicolon, if there is such a statement.
func (s *splitter) rest() (statement, bool) {
	return statement{strings.TrimSpace(s.text.String()), s.line}, s.state != atStart
}

// feed takes the next line, with its line break, and returns the statements that end in it.
func (s *splitter) feed(text string, line int) []statement {
	var ended []statement
	from := 0
	for at := 0; at < len(text); {
		var t token
		if t, at = s.next(text, at); t == blank {
			continue
		}
		before := s.state
		if before == atStart {
			s.line = line
		}
		if s.state = transitions[before][t]; s.state != atStart {
			continue
		}
		if before != atStart { // else it is a semicolon alone
			s.text.WriteString(text[from:at])
			ended = append(ended, statement{strings.TrimSpace(s.text.String()), s.line})
		}
		s.text.Reset()
		from = at
	}
	if s.pending() {
		s.text.WriteString(text[from:])
	} else {
		s.text.Reset()
	}
	return ended
}

// next returns the token at a position of the line, and where it ends.
func (s *splitter) next(text string, at int) (token, int) {
	if s.open != "" {
		return s.skip(text, at)
	}
	switch c := text[at]; {
	case c == ';':
		return semicolon, at + 1
	case strings.IndexByte(" \t\r\n\f", c) >= 0:
		return blank, at + 1
	case c == '\'' || c == '"' || c == '`':
		s.open = string(c)
		return other, at + 1
	case c == '[':
		s.open = "]"
		return other, at + 1
	case strings.HasPrefix(text[at:], "--"):
		s.open = "\n"
		return blank, at + 2
	case strings.HasPrefix(text[at:], "/*"):
		s.open = "*/"
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

// skip passes over the open quote or comment. It is blank: the opening character was its token.
func (s *splitter) skip(text string, at int) (token, int) {
	n := strings.Index(text[at:], s.open)
	if n < 0 {
		return blank, len(text)
	}
	stop := at + n + len(s.open)
	s.open = ""
	return blank, stop
}

func inWord(c byte) bool {
	return c >= 0x80 || c == '_' || c == '$' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}
