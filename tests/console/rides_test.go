package console

import (
	"net/http"
	"strings"
	"testing"

	"rideshare/internal/testkit/apitest"
)

// Users and rides are made and joined as the services see them.
func TestRides_MadeAndJoined(t *testing.T) {
	s := anywhere(t)
	p := s.open(t, "rides")
	for _, name := range []string{"ann", "bob"} {
		p.fill("Name", name)
		p.click("Create user")
		p.waitText(name + " was created")
	}
	p.fill("By", "ann")
	p.wait(`((s) => (s[0].value = '22', s[1].value = '23', s[0].value === '22' && s[1].value === '23'))(document.querySelectorAll('form select'))`) // once the areas are there
	p.fill("Seats", "1")
	p.fill("When", "12026-01-01T10:00") // refused by the form
	p.click("Create ride")
	p.fill("When", "2027-01-01T10:00")
	p.click("Create ride")
	p.waitText("Ride 1 was created.")
	p.waitText("Vishwanath Nagenahalli")
	p.fill("Who joins", "ann")
	p.click("Join ride 1")
	p.waitText("ann did not join ride 1")
	p.fill("Who joins", "bob")
	p.click("Join ride 1")
	p.waitText("bob has joined ride 1.")
	p.waitText("full")
	if got := apitest.OK(t, http.MethodGet, s.Gateway+"/api/v1/rides/1", ""); !strings.Contains(got, `"users":["bob"]`) || !strings.Contains(got, `"source":22,"destination":23`) || !strings.Contains(got, "01-01-2027:00-00-10") {
		t.Errorf("rides shows %s", got)
	}
}

// A typed name is a text, even if it looks like a BLOB.
func TestRides_NamesLikeBLOBs_AreTexts(t *testing.T) {
	s := anywhere(t)
	p := s.open(t, "rides")
	const ann, bob = "x'616e6e'", "X'626F62'"
	for _, name := range []string{ann, bob} {
		p.fill("Name", name)
		p.click("Create user")
		p.waitText(name + " was created")
	}
	p.wait(`document.querySelectorAll('form select')[0].options.length > 100`)
	p.fill("By", ann)
	p.click("Create ride")
	p.waitText("Ride 1 was created.")
	p.fill("Who joins", bob)
	p.click("Join ride 1")
	p.waitText(bob + " has joined ride 1.")
	got := s.call(t, http.MethodPost, "/db/query", `["SELECT group_concat(typeof(username)), (SELECT created_by FROM rides), (SELECT user FROM riders) FROM users"]`)
	if !strings.Contains(got, `"values":[["text,text","x'616e6e'","X'626F62'"]]`) {
		t.Errorf("got %s", got)
	}
}

// A view whose first load fails shows that, and is filled once a later load succeeds.
func TestRides_FirstLoadFails_IsRepeated(t *testing.T) {
	s := start(t, "")
	p := open(t, s.URLs().Orchestrator, "overview")
	p.block(true, "/console/areas.csv")
	p.show("rides")
	p.wait(`document.querySelector('.outcome.bad')`)
	p.block(false, "/console/areas.csv")
	p.waitText(views["rides"])
	p.wait(`document.querySelectorAll('form select')[0].options.length > 100`)
	p.wait(`!document.querySelector('.outcome.bad')`)
}

// A write that was done is shown as done, even if the lists cannot be read afterwards.
func TestRides_WrittenButNotReadAgain_IsToldAsDone(t *testing.T) {
	p := open(t, start(t, "").URLs().Orchestrator, "rides")
	p.waitText(views["rides"])
	p.waitText("No users yet.")
	p.block(true, "/db/query")
	p.fill("Name", "ann")
	p.click("Create user")
	p.wait(`document.querySelector('.outcome.good')?.textContent.startsWith('ann was created, without a password. The lists could not be read again: ')`)
}
