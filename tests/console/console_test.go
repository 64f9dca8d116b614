package console

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"rideshare/internal/passhash"
	"rideshare/internal/testkit/testenv"
)

var views = map[string]string{ // each with a text that shows that its data are there
	"overview": "Log head", "workers": "master", "scaling": "Most slaves", "sql": "apicount", "rides": "No rides on this route.", "events": "serves as master", "settings": "--scale-max",
}

// contrast returns the texts whose contrast is below the limit of WCAG AA: 4.5, or 3 for large texts.
const contrast = `(() => {
const rgb = (c) => (c.match(/[\d.]+/g) ?? []).map(Number);
const light = ([r, g, b]) => [r, g, b].map((v) => v / 255).map((v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4).reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
const ground = (e) => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor); if (c.length === 3 || c[3] > 0) return c } return [255, 255, 255] };
return [...document.querySelectorAll('body *')].filter((e) => seen(e) && !e.disabled && [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim())).filter((e) => {
  const style = getComputedStyle(e);
  const [a, b] = [light(rgb(e instanceof SVGElement ? style.fill : style.color)), light(ground(e))].sort((x, y) => y - x);
  return (a + 0.05) / (b + 0.05) < (parseFloat(style.fontSize) >= 24 ? 3 : 4.5);
}).map((e) => e.textContent.slice(0, 40) + ' ' + getComputedStyle(e).color).join('; ') })()`

// nameless returns the controls and buttons without a name.
const nameless = `[...document.querySelectorAll('button, input, select, textarea')].filter((e) => seen(e) && !name(e)).map((e) => e.outerHTML).join('; ')`

// cutTables returns the beginnings of tables of the console that have to be scrolled sideways.
const cutTables = `[...document.querySelectorAll('.view .scroll')].filter((e) => e.scrollWidth > e.clientWidth).map((e) => e.textContent.slice(0, 60)).join('; ')`

// Every view shows its data, at 400 and 1400 pixels without scrolling sideways, light and dark with enough contrast. All
// controls have names.
func TestConsole_EveryView_ReadableEverywhere(t *testing.T) {
	p := anywhere(t).open(t, "overview")
	p.waitText("ready")
	for view, text := range views {
		p.show(view)
		p.waitText(text)
		p.readable(view)
	}
}

// The console leads to the page of the OpenAPI document, which shows its style and is as readable as the console.
func TestDocs_ReadableEverywhere(t *testing.T) {
	p := open(t, start(t, "").URLs().Orchestrator, "overview")
	p.do(chromedp.Click("footer a[href='/docs']"))
	p.waitText("/db/execute")
	p.wait("getComputedStyle(document.body).display === 'grid'")
	p.readable("docs")
}

// readable fails the test unless the page is as wide as the window at 400 and 1400 pixels, has enough contrast in light and
// dark, and has names for all controls.
func (p *page) readable(view string) {
	p.Helper()
	for _, theme := range []string{"light", "dark"} {
		media := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
			{Name: "prefers-color-scheme", Value: theme}, {Name: "prefers-reduced-motion", Value: "reduce"}, // colours change at once
		}}
		if _, err := chromedp.Call(p.tab, emulation.SetEmulatedMedia, media); err != nil {
			p.Fatal(err)
		}
		for _, width := range []int64{400, 1400} {
			p.do(chromedp.EmulateViewport(width, 800))
			p.keep(fmt.Sprintf("%s-%s-%d.png", view, theme, width))
			if wide := eval[int64](p, "document.documentElement.scrollWidth"); wide > width {
				p.Errorf("%s, %s: %d pixels wide, want %d", view, theme, wide, width)
			}
			if cut := eval[string](p, cutTables); width == 400 && cut != "" {
				p.Errorf("%s, %s: tables wider than the window: %s", view, theme, cut)
			}
			if pale := eval[string](p, contrast); pale != "" {
				p.Errorf("%s, %s, %d: too little contrast: %s", view, theme, width, pale)
			}
		}
	}
	if without := eval[string](p, nameless); without != "" {
		p.Errorf("%s: without a name: %s", view, without)
	}
}

// keep writes a screenshot of the page into the directory that RIDESHARE_SCREENSHOTS names, if it is set.
func (p *page) keep(name string) {
	p.Helper()
	dir := os.Getenv("RIDESHARE_SCREENSHOTS")
	if dir == "" {
		return
	}
	picture, err := chromedp.Run(p.tab, chromedp.FullScreenshot(100))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name), picture, 0o600)
	}
	if err != nil {
		p.Error(err)
	}
}

// The overview follows the traffic within seconds, and says what counts as a write.
func TestOverview_ShowsTraffic(t *testing.T) {
	s := anywhere(t)
	p := s.open(t, "overview")
	p.waitText("caught-up slave")
	if !eval[bool](p, "text().includes('/db/request counts as a write,')") {
		t.Error("the page does not say that /db/request counts as a write")
	}
	testenv.Eventually(t, patience, func() error {
		s.call(t, http.MethodPost, "/db/query", `["SELECT 1"]`)
		if !eval[bool](p, `/Requests per second: reads [1-9]/.test(document.querySelector('svg.chart').getAttribute('aria-label'))`) {
			return fmt.Errorf("got %s", eval[string](p, `document.querySelector('svg.chart').getAttribute('aria-label')`))
		}
		return nil
	})
}

// Statements are read and written, one by one or as a transaction; results have types, and can be saved. The history
// outlives the page, and the schema is shown.
func TestSQL_RunsShowsAndSaves(t *testing.T) {
	s := anywhere(t)
	p := s.open(t, "sql")
	p.fill("SQL", "DROP TABLE IF EXISTS t; CREATE TABLE t(id INTEGER PRIMARY KEY, big INTEGER, name TEXT); INSERT INTO t(big, name) VALUES(9007199254740993, 'a;b'), (2, NULL);")
	p.click("Run as write")
	p.waitText("3 statements,")
	p.waitText("2 rows changed")
	p.wait(`[...document.querySelectorAll('summary')].some((s) => s.textContent === 't table')`)
	p.fill("SQL", "SELECT * FROM t;")
	p.fill("Level", "linearizable")
	p.click("Run as read")
	p.waitText("9007199254740993")
	p.wait(`[...document.querySelectorAll('.result th small')].map((e) => e.textContent).join() === 'integer,integer,text'`)
	p.waitText("NULL")
	p.click("Explain")
	p.waitText("SCAN t")
	p.fill("SQL", "INSERT INTO t(id) VALUES(7); INSERT INTO t(id) VALUES(7);")
	eval[bool](p, "(control('transaction').checked = true)")
	p.click("Run as write")
	p.waitText("UNIQUE constraint failed")
	if got := s.call(t, http.MethodPost, "/db/query", `["SELECT count(*) FROM t"]`); !strings.Contains(got, `"values":[[2]]`) {
		t.Errorf("got %s, want the transaction undone", got)
	}
	p.load("sql")
	p.wait(`control('SQL').value.startsWith('INSERT INTO t(id) VALUES(7)')`)
	p.fill("SQL", "SELECT big, name FROM t ORDER BY id")
	p.click("Run as read")
	p.waitText("a;b")
	if got := p.saved("CSV", "result.csv"); got != "big,name\r\n9007199254740993,a;b\r\n2,\r\n" {
		t.Errorf("got %q", got)
	}
	p.fill("SQL", "SELECT big AS a, id AS a, big || '' AS b FROM t ORDER BY id")
	p.click("Run as read")
	p.wait(`[...document.querySelectorAll('.result th span')].map((e) => e.firstChild.textContent).join() === 'a,a,b'`)
	if got := p.saved("JSON", "result.json"); got != "[{\"a\":9007199254740993,\"a\":1,\"b\":\"9007199254740993\"},\n{\"a\":2,\"a\":2,\"b\":\"2\"}]\n" {
		t.Errorf("got %q", got)
	}
}

// saved presses a button and returns the file that the browser saves.
func (p *page) saved(name, pattern string) string {
	p.Helper()
	dir := p.TempDir()
	behavior := browser.SetDownloadBehaviorParams{Behavior: browser.SetDownloadBehaviorBehaviorAllow, DownloadPath: dir}
	if _, err := chromedp.CallBrowser(p.tab, browser.SetDownloadBehavior, behavior); err != nil {
		p.Fatal(err)
	}
	p.click(name)
	var text []byte
	testenv.Eventually(p.T, patience, func() error {
		files, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil || len(files) != 1 {
			return fmt.Errorf("%v files (%w)", files, os.ErrNotExist)
		}
		text, err = os.ReadFile(files[0])
		if len(text) == 0 {
			err = cmp.Or(err, errors.New("the browser has made the file and not written it yet"))
		}
		return err
	})
	return string(text)
}

// The limits of scaling are tried out and saved; a page with older limits does not overwrite them.
func TestScaling_TriedAndSaved(t *testing.T) {
	s := anywhere(t)
	most := func() int {
		t.Helper()
		var limits struct{ Max int }
		if err := json.Unmarshal([]byte(s.call(t, http.MethodGet, "/api/v1/scaling", "")), &limits); err != nil {
			t.Fatal(err)
		}
		return limits.Max
	}
	before := most()
	p := s.open(t, "scaling")
	p.wait(fmt.Sprintf(`control('Most slaves').value === '%d'`, before))
	p.fill("Most slaves", strconv.Itoa(before+1))
	p.click("Dry run")
	p.waitText("Nothing was changed.")
	if got := most(); got != before {
		t.Errorf("after the dry run: got %d, want %d", got, before)
	}
	p.click("Save")
	p.waitText("All orchestrators follow")
	if got := most(); got != before+1 {
		t.Errorf("after saving: got %d, want %d", got, before+1)
	}
	s.call(t, http.MethodPatch, "/api/v1/scaling", fmt.Sprintf(`{"max":%d}`, before+2))
	p.letFail() // 409
	p.click("Save")
	p.waitText("somebody else has changed")
}

// Earlier and new events are shown, and can be filtered.
func TestEvents_AsTheyHappen(t *testing.T) {
	s := anywhere(t)
	before := s.whole(t)
	p := s.open(t, "events")
	p.waitText("serves as master")
	s.call(t, http.MethodPatch, "/api/v1/admission", `{"inflight":4000}`)
	defer s.call(t, http.MethodPatch, "/api/v1/admission", `{"inflight":null}`)
	p.fill("Kind", "limit")
	p.wait(`!text().includes('serves as master') && /inflight: \d+ → 4000, \S/.test(text())`)
	p.fill("Kind", "all")
	var killed []int
	if err := json.Unmarshal([]byte(s.call(t, http.MethodPost, "/api/v1/crash/slave", "")), &killed); err != nil {
		t.Fatal(err)
	}
	p.waitText("died (killed)")
	p.fill("Kind", "role")
	p.wait(`!text().includes('died (killed)') && text().includes('was made slave')`)
	after := s.whole(t, killed...)
	added := slices.IndexFunc(after, func(m member) bool { return !slices.Contains(before, m) })
	p.fill("Worker", after[added].Container)
	p.wait(`[...document.querySelectorAll('tbody tr')].filter(seen).length === 1`)
}

// The settings are shown, and the support bundle has what it promises, without rows.
func TestSettings_AndSupportBundle(t *testing.T) {
	p := anywhere(t).open(t, "settings")
	p.waitText("--scale-max")
	testenv.Eventually(t, patience, func() error { // the page stops reading if no event comes for 300 ms
		got := p.saved("Download support bundle", "rideshare-support-*.json")
		for _, part := range []string{`"--scale-max"`, `"members"`, `"decisions"`, "rideshare_http_requests_total"} {
			if !strings.Contains(got, part) {
				t.Errorf("the bundle lacks %s", part)
			}
		}
		if !strings.Contains(got, `"change": "serving"`) {
			return errors.New("the bundle lacks the last events")
		}
		return nil
	})
}

// The settings of the other parts are shown by part. For a part that does not answer, the error is shown.
func TestSettings_OfOtherParts(t *testing.T) {
	p := open(t, start(t, "").URLs().Orchestrator, "overview")
	eval[bool](p, `(() => { const real = fetch;
window.fetch = async (path, options) => {
  const answer = await real(path, options);
  if (path !== '/api/v1/settings') return answer;
  const setting = { name: '--retain-for', env: 'PERSDB_RETAIN_FOR', value: '2h', source: 'environment' };
  return Response.json({ ...await answer.json(), parts: [{ part: 'persdb', instance: 'h1:9530', settings: [setting] }, { part: 'worker', instance: 'w-1', error: 'worker cannot be reached' }] });
};
return true })()`)
	p.show("settings")
	p.waitText("--scale-max")
	p.wait(`text().includes('persdb h1:9530') && !text().includes('--retain-for')`)
	eval[bool](p, `[...document.querySelectorAll('summary')].every((s) => s.click() || true)`)
	p.wait(`/--retain-for\s+2h\s+environment\s+PERSDB_RETAIN_FOR/.test(text())`)
	p.wait(`text().includes('worker w-1') && text().includes('worker cannot be reached')`)
	p.readable("settings-parts")
}

// With credentials the page asks for them, keeps them in the tab, and offers only what the role may do.
func TestSignIn_ShowsWhatTheRoleMayDo(t *testing.T) {
	file := ""
	for _, role := range []string{"read", "write", "admin"} {
		file += "user " + role + "er " + role + " " + passhash.Argon2id("secret", [passhash.SaltSize]byte{}, passhash.Cost{MemoryKiB: 8, Passes: 1}) + "\n"
	}
	s := start(t, file)
	p := open(t, s.URLs().Orchestrator, "workers")
	signIn := func(user, password string) {
		p.fill("User", user)
		p.fill("Password", "")
		p.do(chromedp.SendKeys("#secret", password+"\r"))
	}
	signIn("reader", "wrong")
	p.waitText("is wrong.")
	p.readable("sign-in")
	offers := func(view string) string {
		p.show(view)
		p.waitText(views[view])
		p.wait(`location.hash !== '#workers' || document.querySelectorAll('tbody td.good').length === 3`) // all of them serve
		return eval[string](p, `[...document.querySelectorAll('main button')].filter((b) => seen(b) && b.closest('details') === null).map((b) => b.textContent).join()`)
	}
	for _, role := range []struct{ user, workers, sql, rides string }{
		{"reader", "", "Run as read,Explain", ""},
		{"writeer", "", "Run as read,Run as write,Explain", "Create ride,Create user"},
		{"adminer", "Run the check,Crash,Make master,Make master,Crash", "Run as read,Run as write,Explain", "Create ride,Create user"},
	} {
		signIn(role.user, "secret")
		p.waitText(role.user)
		if got := offers("workers"); got != role.workers {
			t.Errorf("%s, workers: got %q, want %q", role.user, got, role.workers)
		}
		if got := offers("sql"); got != role.sql {
			t.Errorf("%s, sql: got %q, want %q", role.user, got, role.sql)
		}
		if got := offers("rides"); got != role.rides {
			t.Errorf("%s, rides: got %q, want %q", role.user, got, role.rides)
		}
		p.click("Sign out")
		p.waitText("asks for credentials")
	}
	if kept := eval[string](p, `JSON.stringify([sessionStorage, document.cookie])`); strings.Contains(kept, "Basic") {
		t.Errorf("after signing out: got %s", kept)
	}
}

// A dead orchestrator is shown as dead, with the last known state, and no button can be pressed.
func TestDead_ShownWithWhatWasKnown(t *testing.T) {
	s := start(t, "")
	p := open(t, s.URLs().Orchestrator, "workers")
	p.wait(`button('Crash the master 1000')`)
	p.letFail()
	if err := s.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	p.waitText("The orchestrator has not answered since")
	p.wait(`text().includes('1000') && button('Crash the master 1000').disabled && document.getElementById('health').textContent === 'no answer'`)
}
