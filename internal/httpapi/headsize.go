package httpapi

import (
	"bytes"
	"math"
)

var newline = []byte{'\n'}

// extent is a number of bytes, and of the lines that end in them.
type extent struct{ bytes, lines int64 }

// extentOf returns the extent of the received bytes.
func extentOf(p []byte) extent { return extent{int64(len(p)), int64(bytes.Count(p, newline))} }

// headSize measures the head of a request as it arrives.
type headSize struct {
	extent

	inLine, lineEnded bool // inLine: the current line has text; lineEnded: the current line has no text yet, the line before it had
	ended             bool
	body              int64 // the length of the body, -1 if it is not known
	after             int64 // bytes received after the end
	// ahead is the last part of what was received after the head, or while the request was being served. It is at most what
	// net/http reads at once, and may belong to the next head.
	ahead extent
	// carried: this head may have begun in the bytes ahead of the previous one. scan may then miss the end of this head and
	// find the end of a later one, so everything that was received last counts as ahead.
	carried bool
}

// memory returns how many bytes of memory the head takes.
func (h *headSize) memory() int64 { return headCopies*h.bytes + lineMemory*h.lines }

// add adds received bytes. While a request is being served they are no part of its head. single reports whether net/http
// asked for at most one byte: it then waits for the end of the connection, and keeps what it has read before.
func (h *headSize) add(p []byte, serving, single bool) {
	inHead := !serving && !h.ended
	if inHead {
		if len(p) > 0 && p[0] > '\r' { // text: net/http is still reading this head, so the next end of a head is its end
			h.carried = false
		}
		if rest := h.scan(p); h.ended && !h.carried {
			p = rest
		}
	}
	if h.ended {
		h.after += int64(len(p))
	}
	size := extentOf(p[max(0, int64(len(p))-min(readAhead, h.beyond())):])
	if single && !inHead {
		size.bytes += h.ahead.bytes
		size.lines += h.ahead.lines
	}
	h.ahead = size
}

// begin sets the length of the body, when serving of the request starts.
func (h *headSize) begin(body int64) {
	h.body = body
	most := h.beyond()
	h.ahead = extent{min(h.ahead.bytes, most), min(h.ahead.lines, most)}
}

// beyond returns how many bytes were received after the body. If that is not known, it is more than any number of bytes.
func (h *headSize) beyond() int64 {
	if h.carried || h.body < 0 {
		return math.MaxInt64
	}
	return max(0, h.after-h.body)
}

// next returns the size of what was received of the next head.
func (h *headSize) next() headSize {
	return headSize{extent: h.ahead, ahead: h.ahead, carried: h.ahead.bytes > 0}
}

// scan adds p up to the end of the head, an empty line, and returns what follows. Empty lines before the head are a part
// of the head: net/http passes over them after a POST.
func (h *headSize) scan(p []byte) []byte {
	for rest := p; len(rest) > 0; {
		line, next, ends := bytes.Cut(rest, newline)
		if len(bytes.Trim(line, "\r")) > 0 {
			h.inLine, h.lineEnded = true, false
		}
		if !ends {
			break
		}
		if h.lineEnded {
			h.ended = true
			h.bytes += int64(len(p) - len(next))
			return next
		}
		h.lines++
		h.inLine, h.lineEnded = false, h.inLine
		rest = next
	}
	h.bytes += int64(len(p))
	return nil
}
