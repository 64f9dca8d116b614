package shell

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
)

// unsafe reports whether a character would control the terminal instead of being shown: control characters, also those
// of U+0080 to U+009F, other line ends, and what changes the direction of writing.
func unsafe(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029'
}

// unsafeButLayout is unsafe without line breaks and tabs.
func unsafeButLayout(r rune) bool { return r != '\n' && r != '\t' && unsafe(r) }

// escape writes the characters for which bad is true as \n, \x1b or \u202e.
func escape(s string, bad func(rune) bool) string {
	if !strings.ContainsFunc(s, bad) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case !bad(r):
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\r':
			b.WriteString(`\r`)
		case r < 0x80:
			_, _ = fmt.Fprintf(&b, `\x%02x`, r)
		default:
			_, _ = fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// value returns a value of an answer as text: null for NULL, x'..' for a blob, a text unchanged, and numbers as the
// server wrote them.
func value(raw json.RawMessage, null string) (string, error) {
	switch raw[0] {
	case 'n':
		return null, nil
	case '"':
		var text string
		err := json.Unmarshal(raw, &text)
		return text, err
	case '[':
		var blob []byte
		err := json.Unmarshal(raw, &blob)
		return "x'" + hex.EncodeToString(blob) + "'", err
	default:
		return string(raw), nil
	}
}

// jsonValue is value as JSON: a blob is the text x'..'.
func jsonValue(raw json.RawMessage) (string, error) {
	if raw[0] == '[' {
		text, err := value(raw, "")
		return `"` + text + `"`, err
	}
	return jsonSafe(string(raw)), nil
}

// jsonSafe escapes the characters that JSON allows in a text but that control a terminal.
func jsonSafe(text string) string {
	if !strings.ContainsFunc(text, unsafeButLayout) {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if unsafeButLayout(r) {
			_, _ = fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}
