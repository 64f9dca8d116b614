package console

import "testing"

// Limits whose first load fails cannot be saved or tried, and are shown once a later load succeeds. If the decisions cannot be
// read, the error is shown until they can be read again.
func TestScaling_FirstLoadFails_IsRepeated(t *testing.T) {
	p := open(t, start(t, "").URLs().Orchestrator, "overview")
	paths := []string{"/api/v1/scaling", "/api/v1/scaling/decisions"}
	p.block(true, paths...)
	p.show("scaling")
	p.wait(`document.querySelectorAll('.outcome.bad').length === 2`)
	p.wait(`text().includes('The limits are not known yet.') || (button('Dry run').click(), false)`) // the next load has its own error
	p.block(false, paths...)
	p.wait(`control('Most slaves').value === '8'`)
	p.wait(`!document.querySelector('.outcome.bad')`)
}
