package console

import (
	"context"
	"strings"
	"testing"
)

// If the browser's storage is full or blocked, statements still run. The oldest statements in the history make room for the
// newest.
func TestSQL_HistoryWithoutRoom_StopsNothing(t *testing.T) {
	p := open(t, start(t, "").URLs().Orchestrator, "sql") // a storage of its own
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

// In a CSV with one column, NULL is not written as an empty line, since readers drop such lines.
func TestSQL_CSVOfOneColumn_KeepsNULL(t *testing.T) {
	p := anywhere(t).open(t, "sql")
	p.fill("SQL", "VALUES(1), (NULL), (''), (2)")
	p.click("Run as read")
	p.waitText("4 rows")
	if got := p.saved("CSV", "result.csv"); got != "column1\r\n1\r\n\"\"\r\n\"\"\r\n2\r\n" {
		t.Errorf("got %q", got)
	}
}

// The button of a running statement stays disabled while the live stream continues, so that no write is sent twice. If the
// orchestrator dies in that time, the end of the statement does not enable the button.
func TestSQL_RunningButton_StaysDisabled(t *testing.T) {
	s := start(t, "")
	p := open(t, s.URLs().Orchestrator, "sql")
	p.waitText("ready")
	eval[bool](p, `(() => { const real = fetch, parse = JSON.parse;
window.fetch = async (path, options) => {
  if (path.startsWith('/db/execute')) await new Promise((resolve) => { window.proceed = resolve });
  return real(path, options);
};
JSON.parse = (...of) => { const data = parse(...of); if (data?.point) window.events++; return data };
return true })()`)
	write := func() {
		t.Helper()
		p.fill("SQL", "CREATE TABLE IF NOT EXISTS t(a)")
		p.click("Run as write")
		p.wait("window.proceed")
	}
	const proceed = "(window.proceed(), delete window.proceed)"
	write()
	eval[int](p, "(window.events = 0)")
	p.wait("window.events > 1") // the page was refreshed after the first of them
	if !eval[bool](p, "button('Run as write').disabled") {
		t.Error("the button of a running write is enabled")
	}
	eval[bool](p, proceed)
	p.waitText("1 statement,")

	write()
	p.letFail()
	if err := s.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	p.waitText("The orchestrator has not answered since")
	eval[bool](p, proceed)
	p.wait("document.querySelector('.outcome.bad')")
	if !eval[bool](p, "button('Run as write').disabled") {
		t.Error("the button is enabled on a dead page")
	}
}

// An SQL view of a dropped table does not hide the rest of the schema.
func TestSQL_ViewOfNoTable_SchemaIsShown(t *testing.T) {
	p := open(t, start(t, "").URLs().Orchestrator, "sql")
	p.fill("SQL", "CREATE TABLE t(a INTEGER); CREATE TABLE gone(a); CREATE VIEW v AS SELECT a FROM gone; DROP TABLE gone;")
	p.click("Run as write")
	p.waitText("4 statements,")
	p.wait(`['t table', 'v view'].every((name) => [...document.querySelectorAll('summary')].some((s) => s.textContent === name))`)
	p.wait(`[...document.querySelectorAll('.schema pre')].some((e) => e.textContent === 'a INTEGER')`)
}

// Typed text is kept while another view is shown and when the skip link is used. Signing out removes the text and the
// earlier statements. Choosing an earlier statement gives the one that its option shows, even if another tab has run a
// statement since.
func TestSQL_TypedText_IsKept(t *testing.T) {
	p := newPage(t, start(t, tokenOf("ann", "read")).URLs().Orchestrator)
	p.token = "secret"
	p.load("sql")
	p.fill("SQL", "SELECT 1 AS mine")
	p.click("Run as read")
	p.waitText("1 statement,")
	eval[bool](p, `(localStorage.setItem('rideshare.statements', '["SELECT 2 AS other", "SELECT 1 AS mine"]'), true)`)
	if got := eval[string](p, `((s) => (s.selectedIndex = 1, s.dispatchEvent(new Event('change')), control('SQL').value))(control('Earlier statements'))`); got != "SELECT 1 AS mine" {
		t.Errorf("the earlier statement: got %q", got)
	}

	p.fill("SQL", "SELECT draft")
	if got := eval[string](p, `(document.querySelector('.skip').click(), location.hash + ' ' + document.activeElement.id)`); got != "#sql main" {
		t.Errorf("after the skip link: got %q", got)
	}
	p.show("overview")
	p.show("sql")
	p.wait(`control('SQL')?.value === 'SELECT draft'`)
	p.click("Sign out")
	p.fill("Password or token", p.token)
	p.click("Sign in")
	p.wait(`control('SQL')?.value === 'SELECT * FROM rides;'`)
	if got := eval[int](p, `control('Earlier statements').options.length`); got != 1 { // its heading
		t.Errorf("after signing out there are %d earlier statements, want none", got-1)
	}
}
