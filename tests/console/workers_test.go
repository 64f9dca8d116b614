package console

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/chromedp/chromedp"
)

// rows waits until the table has these workers in their roles, serving.
func (p *page) rows(members []member) {
	p.Helper()
	for _, m := range members {
		p.wait(fmt.Sprintf(`[...document.querySelectorAll('tbody tr')].some((r) => r.cells[0].textContent === %q && r.cells[1].textContent === '%d' && r.cells[2].textContent === 'serving')`, m.Role, m.PID))
	}
}

// Workers can be crashed and the role handed over, after a confirmation; Escape changes nothing. The check reports. An
// action that is based on an outdated list of workers is refused.
func TestWorkers_Actions(t *testing.T) {
	s := anywhere(t)
	p := s.open(t, "workers")
	members := s.whole(t)
	master, slave := members[0].PID, members[1].PID
	p.rows(members)

	handOver := fmt.Sprintf("Make %d the master", slave)
	p.click(handOver)
	p.do(chromedp.KeyEvent("\x1b"))
	p.wait(`!document.querySelector('dialog').open`)
	p.rows(members)
	p.click(handOver)
	p.click("Hand over")
	p.waitText(fmt.Sprintf("%d is the master with epoch", slave))
	p.waitText(fmt.Sprintf(", after %d.", master))
	p.rows([]member{{PID: slave, Role: "master"}, {PID: master, Role: "slave"}})
	members = p.crash(s, "slave")

	p.click(fmt.Sprintf("Crash the master %d", members[0].PID))
	p.wait(`document.querySelector('dialog').open`)
	p.readable("confirm")
	p.letFail() // 409
	s.call(t, http.MethodPost, "/api/v1/master", fmt.Sprintf(`{"pid":%d}`, members[1].PID))
	p.click("Crash")
	p.waitText("any more")
	p.rows(s.whole(t))

	p.crash(s, "master")
	p.check()
	p.waitText("All invariants hold.")
	p.waitText("one_master")
}

// check runs the check and confirms it.
func (p *page) check() {
	p.Helper()
	p.click("Run the check")
	p.wait(`document.querySelector('dialog').open`)
	p.click("Check")
}

// The check asks for confirmation, since a worker may discard its replica. Escape sends nothing.
func TestWorkers_Check_AsksFirst(t *testing.T) {
	p := open(t, start(t, "").URLs().Orchestrator, "workers")
	p.wait(`button('Run the check')`)
	eval[bool](p, `(() => { const real = fetch; window.checks = 0;
window.fetch = (path, options) => { if (path === '/api/v1/check') window.checks++; return real(path, options) };
return true })()`)
	p.click("Run the check")
	p.wait(`document.querySelector('dialog').open && text().includes('discards its replica')`)
	p.do(chromedp.KeyEvent("\x1b"))
	p.wait(`!document.querySelector('dialog').open`)
	p.check()
	p.waitText("All invariants hold.")
	if checks := eval[int](p, "window.checks"); checks != 1 {
		t.Errorf("got %d checks, want only the one that was agreed to", checks)
	}
}

// crash kills a worker with that role by its button. It returns the workers that serve afterwards, once the table shows
// them.
func (p *page) crash(s *site, role string) []member {
	p.Helper()
	label := "Crash the " + role
	p.wait(fmt.Sprintf("button(%q)", label))
	pid := eval[int](p, fmt.Sprintf(`Number(name(button(%q)).split(' ').at(-1))`, label))
	p.click(fmt.Sprintf("%s %d", label, pid))
	p.wait(`document.querySelector('dialog').open`)
	p.click("Crash")
	p.waitText(fmt.Sprintf("Worker %d was killed.", pid))
	members := s.whole(p.T, pid)
	p.rows(members)
	return members
}

// While the workers cannot be read, their last state is shown with its time, and actions on them are possible.
func TestWorkers_CannotBeRead_ShownAsTheyWere(t *testing.T) {
	p := open(t, start(t, "").URLs().Orchestrator, "workers")
	p.wait(`button('Crash the master 1000')`)
	eval[bool](p, `(() => { const parse = JSON.parse; window.slow = true;
JSON.parse = (...of) => { const data = parse(...of); if (window.slow && data?.state) data.state.cluster = null; return data };
return true })()`)
	p.waitText("The workers cannot be read now. They are shown as they were at")
	p.readable("stale")
	p.click("Crash the master 1000")
	p.wait(`document.querySelector('dialog').open`)
	p.do(chromedp.KeyEvent("\x1b"))
	p.wait(`!document.querySelector('dialog').open`)
	p.show("overview")
	p.waitText("one leads")
	eval[bool](p, `!(window.slow = false)`)
	p.wait(`document.getElementById('banner').hidden`)
}
