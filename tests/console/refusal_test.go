package console

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// occupy opens streams of a route until the orchestrator refuses more. stop closes them.
func occupy(t *testing.T, url string) (stop context.CancelFunc) {
	t.Helper()
	streaming, stop := context.WithCancel(t.Context())
	t.Cleanup(stop)
	for refused := false; !refused; {
		req, err := http.NewRequestWithContext(streaming, http.MethodGet, url, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = resp.Body.Close() })
		refused = resp.StatusCode != http.StatusOK
	}
	return stop
}

// An orchestrator that refuses the live stream is alive: the page shows the reason, and everything else works.
func TestLive_Refused_IsNotDead(t *testing.T) {
	base := start(t, "").URLs().Orchestrator
	stop := occupy(t, base+"/api/v1/live")
	p := newPage(t, base)
	p.letFail() // 503
	p.load("workers")
	p.waitText("streams are open, and no more are allowed")
	p.check()
	p.waitText("All invariants hold.")
	if text := eval[string](p, "text()"); strings.Contains(text, "no answer") || strings.Contains(text, "not answer") {
		t.Errorf("the page says %s", text)
	}
	stop()
	p.wait(`document.getElementById('banner').hidden && document.getElementById('health').textContent === 'ready'`)
}

// While events are refused, the support bundle and the view of events show the reason. Neither says that there are no
// events.
func TestEvents_Refused_IsTold(t *testing.T) {
	base := start(t, "").URLs().Orchestrator
	stop := occupy(t, base+"/api/v1/events")
	p := newPage(t, base)
	p.letFail() // 503
	p.load("settings")
	p.waitText("--scale-max")
	var bundle struct{ Events struct{ Error string } }
	if err := json.Unmarshal([]byte(p.saved("Download support bundle", "rideshare-support-*.json")), &bundle); err != nil {
		t.Errorf("the bundle: %v", err)
	}
	const reason = "streams of events are open, and no more are allowed"
	if !strings.Contains(bundle.Events.Error, reason) {
		t.Errorf("the bundle's events: got the error %q, want %q", bundle.Events.Error, reason)
	}
	p.waitText("saved without events (256 " + reason)

	p.show("events")
	p.waitText(reason)
	if eval[bool](p, "text().includes('No events yet.')") {
		t.Error("the page says that there are no events")
	}
	stop()
	p.wait("text().includes('serves as master') && !text().includes('are open')")
}

// tokenOf is the line of a file of credentials for the token "secret".
func tokenOf(name, role string) string {
	return fmt.Sprintf("token %s %s sha256:%x\n", name, role, sha256.Sum256([]byte("secret")))
}

// After the caller's role was lowered, the first refusal removes the buttons that the new role may not use, and its
// reason is shown. Without a role the page asks for credentials.
func TestRole_Lowered_IsNoticed(t *testing.T) {
	credentials := parsed(t, tokenOf("ann", "admin"))
	p := newPage(t, startWith(t, credentials).URLs().Orchestrator)
	p.token = "secret"
	p.letFail() // 403
	p.load("workers")
	become := func(file string) {
		t.Helper()
		if err := credentials.Replace([]byte(file)); err != nil {
			t.Fatal(err)
		}
	}
	p.waitText("token: admin")
	p.wait(`button('Run the check')`)
	become(tokenOf("ann", "read"))
	p.check()
	p.waitText("token: read")
	p.wait(`!button('Run the check') && text().includes('this needs the role admin')`)

	become(tokenOf("ann", "write"))
	p.load("sql")
	p.waitText("token: write")
	become(tokenOf("ann", "read"))
	p.click("Run as write")
	p.wait(`!button('Run as write') && text().includes('this needs the role write')`)
	p.show("rides")
	p.wait(`!text().includes('this needs the role write')`)

	become("token bob admin sha256:" + strings.Repeat("0", 2*sha256.Size))
	p.wait(`document.querySelector('.sign-in')`)
}

// A refusal that is not about the role leaves the view as it is and shows the reason.
func TestRole_RefusedOtherwise_KeepsTheView(t *testing.T) {
	p := open(t, start(t, "").URLs().Orchestrator, "workers")
	p.waitText("master")
	eval[bool](p, `(() => { const real = fetch; window.asked = 0;
window.fetch = async (path, options) => {
  if (path === '/api/v1/check') return new Response('{"detail":"not from here"}', { status: 403 });
  const answer = await real(path, options);
  if (path === '/api/v1/whoami') window.asked++;
  return answer;
};
return document.querySelector('.view').marked = true })()`)
	for i := range 3 {
		p.check()
		p.waitText("not from here")
		p.wait(fmt.Sprintf("window.asked === %d", i+1))
	}
	if !eval[bool](p, `document.querySelector('.view').marked && text().includes('not from here') && !!button('Run the check')`) {
		t.Error("the view was opened again")
	}
}

// A token that no request can carry is rejected, and is not stored.
func TestSignIn_TokenThatCannotBeSent_IsRefused(t *testing.T) {
	p := newPage(t, start(t, tokenOf("ann", "read")).URLs().Orchestrator)
	p.letFail() // 401
	p.load("overview")
	for _, token := range []string{"s\u0113cret", "s\u00e9cret", "sec ret"} {
		p.fill("Password or token", token)
		p.click("Sign in")
		p.wait(`document.querySelector('.sign-in .outcome.bad')`)
		if said := eval[string](p, `document.querySelector('.sign-in .outcome').textContent`); !strings.Contains(said, "token") {
			t.Errorf("%q: the page says %q", token, said)
		}
		if kept := eval[string](p, `JSON.stringify(sessionStorage)`); kept != "{}" {
			t.Errorf("%q: the tab keeps %s", token, kept)
		}
		p.load("overview")
		p.wait(`document.querySelector('.sign-in')`)
	}
	p.fill("Password or token", "secret ")
	p.click("Sign in")
	p.waitText("token: read")
}
