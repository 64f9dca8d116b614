package process

import (
	"bytes"
	"io"
	"strings"
	"sync"
)

const (
	// maxLineBytes is the longest line passed on whole. Our own log lines are far shorter. Longer lines are cut.
	maxLineBytes = 64 << 10
	// tailLines and tailLineBytes bound what is kept of each of a child's two outputs, and so the log line that reports
	// its death. They fit a panic's message and its first frames.
	tailLines     = 20
	tailLineBytes = 512
)

// sink passes on the lines of several children, one Write per line, so that lines do not mix.
type sink struct {
	mu sync.Mutex // held during Write
	w  io.Writer  // nil discards
}

// write passes a line on. Output that cannot be written is dropped, so that it does not hold up the child.
func (s *sink) write(line []byte) {
	if s.w == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = s.w.Write(line)
}

// lines splits the data written by one output of one child into lines.
type lines struct {
	tail tail
	to   *sink

	mu   sync.Mutex // guards rest
	rest []byte     // of a line that has not ended
}

// Write implements io.Writer. It never fails.
func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rest = append(l.rest, p...)
	done := 0
	for {
		end := bytes.IndexByte(l.rest[done:], '\n')
		if end < 0 {
			break
		}
		l.emit(l.rest[done : done+end+1])
		done += end + 1
	}
	l.rest = append(l.rest[:0], l.rest[done:]...)
	if len(l.rest) >= maxLineBytes {
		l.emitRest()
	}
	return len(p), nil
}

// flush passes on an unfinished last line. It is called when the output has ended.
func (l *lines) flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.rest) > 0 {
		l.emitRest()
	}
}

func (l *lines) emitRest() {
	l.emit(append(l.rest, '\n'))
	l.rest = l.rest[:0]
}

func (l *lines) emit(line []byte) {
	l.tail.add(line)
	l.to.write(line)
}

// tail keeps the last lines of one output of a child. Each output has its own tail, so that a busy log does not push out
// the panic that explains the death.
type tail struct {
	mu    sync.Mutex // guards the fields below
	ring  [tailLines]string
	count int // lines seen
}

func (t *tail) add(line []byte) {
	text := strings.ToValidUTF8(string(line[:min(len(line)-1, tailLineBytes)]), "?")
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ring[t.count%tailLines] = text
	t.count++
}

// String returns the lines, oldest first.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	kept := make([]string, 0, tailLines)
	for n := max(0, t.count-tailLines); n < t.count; n++ {
		kept = append(kept, t.ring[n%tailLines])
	}
	return strings.Join(kept, "\n")
}
