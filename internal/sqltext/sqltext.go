// Package sqltext splits SQL text into statements without the engine.
package sqltext

import (
	"iter"
	"strings"
)

// Statements yields the statements of a text in order, without the semicolon at their end and
// without the blanks and comments around them. A semicolon inside quotes, a comment or the body of
// a trigger ends no statement. A quote that is not closed takes the rest of the text. The
// statements share the text's memory. Source: SQLite's complete.c.
func Statements(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		from, to, state := 0, 0, start
		for at := 0; at < len(text); {
			kind, size := next(text[at:])
			if kind == space {
				at += size
				continue
			}
			before := state
			state = states[state][kind]
			if before == start {
				from = at
			}
			if state == start {
				if before != start && !yield(text[from:to]) {
					return
				}
			}
			at += size
			to = at
		}
		if state != start {
			yield(text[from:to])
		}
	}
}

// The kinds of tokens. space is the kind of blanks and comments.
const (
	semicolon = iota
	other
	explain
	create
	temp
	trigger
	end
	kinds
	space = kinds
)

// The states between two tokens.
const (
	start      = iota // of a statement
	normal            // inside a statement that ends with its first semicolon
	explaining        // after EXPLAIN
	creating          // after CREATE
	triggering        // inside CREATE TRIGGER
	ended             // inside CREATE TRIGGER, after a semicolon
	ending            // the same, after END
)

// states holds the next state for each kind of token.
var states = [...][kinds]int{
	start:      {semicolon: start, other: normal, explain: explaining, create: creating, temp: normal, trigger: normal, end: normal},
	normal:     {semicolon: start, other: normal, explain: normal, create: normal, temp: normal, trigger: normal, end: normal},
	explaining: {semicolon: start, other: explaining, explain: normal, create: creating, temp: normal, trigger: normal, end: normal},
	creating:   {semicolon: start, other: normal, explain: normal, create: normal, temp: creating, trigger: triggering, end: normal},
	triggering: {semicolon: ended, other: triggering, explain: triggering, create: triggering, temp: triggering, trigger: triggering, end: triggering},
	ended:      {semicolon: ended, other: triggering, explain: triggering, create: triggering, temp: triggering, trigger: triggering, end: ending},
	ending:     {semicolon: start, other: triggering, explain: triggering, create: triggering, temp: triggering, trigger: triggering, end: triggering},
}

// next returns the kind and the size of the first token of a text that is not empty.
func next(text string) (kind, size int) {
	switch c := text[0]; {
	case c == ';':
		return semicolon, 1
	case c == ' ' || c >= '\t' && c <= '\r' && c != '\v':
		return space, 1
	case strings.HasPrefix(text, "--"):
		return space, through(text, 2, "\n")
	case strings.HasPrefix(text, "/*"):
		return space, through(text, 2, "*/")
	case c == '\'' || c == '"' || c == '`':
		return other, through(text, 1, text[:1])
	case c == '[':
		return other, through(text, 1, "]")
	case letter(c):
		n := 1
		for n < len(text) && letter(text[n]) {
			n++
		}
		return word(text[:n]), n
	}
	return other, 1
}

// through returns the size of the text up to and with the first stop after from.
func through(text string, from int, stop string) int {
	if i := strings.Index(text[from:], stop); i >= 0 {
		return from + i + len(stop)
	}
	return len(text)
}

func letter(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '$' || c >= 0x80
}

func word(w string) int {
	switch {
	case strings.EqualFold(w, "explain"):
		return explain
	case strings.EqualFold(w, "create"):
		return create
	case strings.EqualFold(w, "temp"), strings.EqualFold(w, "temporary"):
		return temp
	case strings.EqualFold(w, "trigger"):
		return trigger
	case strings.EqualFold(w, "end"):
		return end
	}
	return other
}
