package process

import "io"

// NewPause is newPause.
var NewPause = newPause

// WriteLines writes all that one child wrote, and ends it.
func WriteLines(to io.Writer, all []string) {
	l := &lines{to: &sink{w: to}}
	for _, text := range all {
		_, _ = l.Write([]byte(text))
	}
	l.flush()
}
