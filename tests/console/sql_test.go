package console

import (
	"strings"
	"testing"
)

// A full store of the browser, or one that it blocks, stops no statement. The oldest statements make room for the newest.
func TestSQL_HistoryWithoutRoom_StopsNothing(t *testing.T) {
	p := open(t, start(t, "").URLs().Orchestrator, "sql") // a store of its own
	asked := 0
	read := func(more string) string {
		t.Helper()
		asked++
		text := "SELECT " + strings.Repeat("9", asked) + " AS n /*" + more + "*/"
		p.fill("SQL", text)
		p.click("Run as read")
		p.wait(`[...document.querySelectorAll('.result td')].some((e) => e.textContent === '` + strings.Repeat("9", asked) + `')`)
		return text
	}
	remembers := func(want ...string) {
		t.Helper()
		got := eval[[]string](p, `JSON.parse(localStorage.getItem('rideshare.statements'))`)
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("remembered %d statements of %d bytes, want %d of %d", len(got), len(strings.Join(got, "")), len(want), len(strings.Join(want, "")))
		}
	}
	first := read(strings.Repeat("1", 1000))
	second := read(strings.Repeat("2", 1000))
	read(strings.Repeat("3", 64<<10))
	remembers(second, first)

	eval[int64](p, `(() => { let n = 0;
for (let size = 1 << 22; size > 0; size >>= 1) for (;;) { try { localStorage.setItem('other' + n, 'x'.repeat(size)); n++ } catch { break } }
return n })()`)
	newest := read(strings.Repeat("4", 1500))
	remembers(newest)

	eval[bool](p, `(Storage.prototype.setItem = () => { throw new DOMException('blocked', 'SecurityError') }, true)`)
	read("5")
	remembers(newest)
	eval[bool](p, `(Object.defineProperty(window, 'localStorage', { get() { throw new DOMException('blocked', 'SecurityError') } }), true)`)
	read("6")
}

// In the CSV of one column, NULL is not an empty line, since readers drop such lines.
func TestSQL_CSVOfOneColumn_KeepsNULL(t *testing.T) {
	p := anywhere(t).open(t, "sql")
	p.fill("SQL", "VALUES(1), (NULL), (''), (2)")
	p.click("Run as read")
	p.waitText("4 rows")
	if got := p.saved("CSV", "result.csv"); got != "column1\r\n1\r\n\"\"\r\n\"\"\r\n2\r\n" {
		t.Errorf("got %q", got)
	}
}
