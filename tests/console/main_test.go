// Package console tests the console in a browser: Debian's chromium, without a window, on the embedded system.
package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"rideshare/internal/httpapi"
	"rideshare/internal/settings"
	"rideshare/internal/testkit/testenv"
	"rideshare/orchestrator/admission"
	consolepkg "rideshare/orchestrator/console"
	"rideshare/orchestrator/scale"
	"rideshare/rides/usercheck"
	"rideshare/system"
)

// patience bounds each wait. It is long: the browser shares two cores with other tests, and on a given system the workers are
// containers, which start slowly.
var patience = 30 * time.Second

// chromium is shared by all tests; each has a tab of its own.
var chromium context.Context

func TestMain(m *testing.M) {
	os.Exit(run(m)) //nolint:forbidigo // TestMain is the main of this binary.
}

func run(m *testing.M) int {
	file, err := exec.LookPath("chromium")
	if err != nil {
		return m.Run() // open reports that there is no browser
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(file), chromedp.NoSandbox, chromedp.WSURLReadTimeout(time.Minute))
	if os.Getenv(givenEnv) != "" {
		patience = 3 * time.Minute
		options = append(options, chromedp.Flag("ignore-certificate-errors", true)) // given does the same for Go's client
	}
	allocator, end := chromedp.NewExecAllocator(context.Background(), options...)
	defer end()
	var closeBrowser context.CancelFunc
	chromium, closeBrowser = chromedp.NewContext(allocator)
	defer closeBrowser()
	if err = chromedp.Do(chromium, chromedp.Navigate("about:blank")); err != nil {
		fmt.Fprintln(os.Stderr, "console: start chromium:", err)
		return 1
	}
	return m.Run()
}

// start runs an embedded system with two slaves. credentials is the contents of a file of credentials, or "".
func start(t *testing.T, credentials string) *system.System {
	t.Helper()
	if credentials == "" {
		return startWith(t, nil)
	}
	return startWith(t, parsed(t, credentials))
}

func parsed(t *testing.T, credentials string) *httpapi.Credentials {
	t.Helper()
	k, err := httpapi.ParseCredentials(strings.NewReader(credentials))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// startWith is start with credentials that the test may replace.
func startWith(t *testing.T, credentials *httpapi.Credentials) *system.System {
	t.Helper()
	const anyPort = "127.0.0.1:0"
	protection := admission.Defaults()
	cfg := system.Config{
		Log: slog.New(slog.DiscardHandler), Data: t.TempDir(), Name: "console", Version: "v0.0.0-test", Slaves: 2, CallTimeout: patience, HungAfter: time.Minute,
		Gateway: anyPort, Users: anyPort, Rides: anyPort, Orchestrator: anyPort,
		Admission: &protection,
		Scale:     system.Scale{Settings: scale.Settings{Policy: "reads", Min: 1, Max: 8, ReadsPerSlave: 20}, Period: time.Hour},
		RideRules: system.RideRules{Now: time.Now, Location: time.UTC, UserCheck: usercheck.Lookup},
		About: consolepkg.About{Version: "v0.0.0-test", Settings: []settings.Setting{
			{Name: "--scale-max", Value: "8", Source: "default"}, {Name: "--archive-snapshot-every", Value: "24h0m0s", Source: "default", Env: "ARCHIVE_SNAPSHOT_EVERY"},
		}},
	}
	if credentials != nil {
		cfg.Credentials, cfg.Authorization = credentials, credentials.Own("up", httpapi.Write)
	}
	s, err := system.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if closeErr := s.Close(context.Background()); closeErr != nil {
			t.Error(closeErr)
		}
	})
	if err = s.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// page is a tab with the console.
type page struct {
	*testing.T
	tab   context.Context
	base  string
	token string // to sign in with where the console asks

	mu       sync.Mutex // guards the fields below
	problems []string   // errors in the browser's console and in its network log
	mayFail  bool       // see letFail
}

// open shows a view of the console at base.
func open(t *testing.T, base, view string) *page {
	t.Helper()
	p := newPage(t, base)
	p.load(view)
	return p
}

// newPage returns an empty tab. When the test ends, it fails if a page in the tab wrote an error to the browser's console, threw
// an error, or requested anything outside base.
func newPage(t *testing.T, base string) *page {
	t.Helper()
	if chromium == nil {
		testenv.Cannot(t, false, "the console: there is no chromium; make setup installs it")
	}
	tab, closeTab := chromedp.NewContext(chromium)
	p := &page{T: t, tab: tab, base: base}
	t.Cleanup(func() {
		closeTab()
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, problem := range p.problems {
			t.Error(problem)
		}
	})
	p.do(chromedp.Navigate("about:blank"))
	if err := chromedp.Listen(tab, p.watch); err != nil {
		t.Fatal(err)
	}
	if _, err := chromedp.Call(tab, network.Enable, network.EnableParams{}); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *page) watch(event any) {
	problem := ""
	switch e := event.(type) {
	case *runtime.EventConsoleAPICalled:
		problem = fmt.Sprintf("the page logs %s %v", e.Type, e.Args)
	case *runtime.EventExceptionThrown:
		problem = fmt.Sprintf("the page throws %s", e.ExceptionDetails.Exception.Description)
	case *log.EventEntryAdded:
		problem = fmt.Sprintf("the browser says %s: %s", e.Entry.URL, e.Entry.Text)
	case *network.EventRequestWillBeSent:
		if u := e.Request.URL; !strings.HasPrefix(u, p.base+"/") && !strings.HasPrefix(u, "blob:") && !strings.HasPrefix(u, "data:") && u != "about:blank" {
			problem = "the page asks another host: " + u
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	// A network that other tests add to this machine ends the browser's connections; the page connects again.
	if problem != "" && !strings.Contains(problem, "ERR_NETWORK_CHANGED") && (!p.mayFail || !strings.Contains(problem, "Failed to load")) {
		p.problems = append(p.problems, problem)
	}
}

// letFail allows requests to fail from now on, which the browser's console reports as errors.
func (p *page) letFail() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mayFail = true
}

// block makes the page's requests of these paths get no answer, or ends that if on is false.
func (p *page) block(on bool, paths ...string) {
	p.Helper()
	p.letFail()
	var patterns []*network.BlockPattern
	for _, path := range paths {
		patterns = append(patterns, &network.BlockPattern{URLPattern: "*://*:*" + path, Block: on})
	}
	if _, err := chromedp.Call(p.tab, network.SetBlockedURLs, network.SetBlockedURLsParams{URLPatterns: patterns}); err != nil {
		p.Fatal(err)
	}
}

// do runs a step of the browser.
func (p *page) do(steps ...chromedp.Action[chromedp.Void]) {
	p.Helper()
	if err := chromedp.Do(p.tab, steps...); err != nil {
		p.Fatal(err)
	}
}

// show changes to a view, as a click on its name does.
func (p *page) show(view string) {
	p.Helper()
	eval[string](p, fmt.Sprintf("location.hash = %q", view))
	p.wait(fmt.Sprintf("document.querySelector('nav a[aria-current]')?.hash === %q", "#"+view))
}

// load loads the page with a view, and returns once its frame is shown. If the tab is not signed in yet, load signs in with the
// token, if there is one.
func (p *page) load(view string) {
	p.Helper()
	testenv.Eventually(p.T, patience, func() error {
		err := chromedp.Do(p.tab, chromedp.Navigate("about:blank"), chromedp.Navigate(p.base+"/#"+view))
		if err != nil {
			return err
		}
		found, err := chromedp.Run(p.tab, chromedp.Poll[bool](`!!document.querySelector('main h2')`, chromedp.WithPollingTimeout(5*time.Second)))
		if !found {
			err = cmp.Or(err, errNoPage)
		}
		return err
	})
	if p.token != "" && eval[bool](p, "!!document.querySelector('.sign-in')") {
		p.fill("Password or token", p.token)
		p.click("Sign in")
		p.wait("!document.querySelector('.sign-in')")
	}
}

var errNoPage = errors.New("the page is empty")

// evaluate returns the value of a JavaScript expression, in which button(name) finds a visible button by its name.
func evaluate[T any](p *page, expression string) (T, error) {
	return chromedp.Run(p.tab, chromedp.Evaluate[T]("(() => {"+finders+"; return "+expression+"})()"))
}

// eval is evaluate; an expression without a value fails the test.
func eval[T any](p *page, expression string) T {
	p.Helper()
	got, err := evaluate[T](p, expression)
	if err != nil {
		p.Fatalf("%s: %v", expression, err)
	}
	return got
}

const finders = `
const labels = (e) => [...e.labels].map((l) => l.querySelector('span').textContent).join(' ');
const name = (e) => (e.getAttribute('aria-label') ?? (e.tagName === 'BUTTON' ? e.textContent : labels(e))).trim();
const seen = (e) => e.checkVisibility();
const button = (text) => [...(document.querySelector('dialog[open]') ?? document).querySelectorAll('button')].find((e) => seen(e) && name(e).includes(text));
const control = (text) => [...document.querySelectorAll('input, select, textarea')].find((e) => seen(e) && name(e).includes(text));
const text = () => document.body?.innerText ?? ''
`

// wait returns once an expression is true. While the browser changes to another page, expressions have no value.
func (p *page) wait(expression string) {
	p.Helper()
	testenv.Eventually(p.T, patience, func() error {
		holds, err := evaluate[bool](p, "!!("+expression+")")
		if holds && err == nil {
			return nil
		}
		shown, textErr := evaluate[string](p, "text()")
		return errors.Join(fmt.Errorf("not so: %s\n%s", expression, shown), err, textErr)
	})
}

// waitText returns when the page has a text.
func (p *page) waitText(text string) {
	p.Helper()
	p.wait(fmt.Sprintf("text().includes(%q)", text))
}

// click presses the button of that name, once it is there and enabled.
func (p *page) click(name string) {
	p.Helper()
	p.wait(fmt.Sprintf("((b) => b && !b.disabled && (b.click(), true))(button(%q))", name))
}

// fill sets the control with that label, as typing or choosing does.
func (p *page) fill(label, value string) {
	p.Helper()
	p.wait(fmt.Sprintf("((c) => { if (!c) return false; c.value = %q; c.dispatchEvent(new Event('input', {bubbles: true})); c.dispatchEvent(new Event('change', {bubbles: true})); return true })(control(%q))", value, label))
}
