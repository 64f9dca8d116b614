package console

import "testing"

// Limits whose first load fails cannot be saved or tried, and are shown once it succeeds. The error of a look at the decisions is
// gone with the next look that succeeds.
func TestScaling_FirstLoadFails_IsRepeated(t *testing.T) {
	p := open(t, start(t, "").URLs().Orchestrator, "overview")
	paths := []string{"/api/v1/scaling", "/api/v1/scaling/decisions"}
	p.block(true, paths...)
	p.show("scaling")
	p.wait(`document.querySelectorAll('.outcome.bad').length === 2`)
	p.wait(`text().includes('The limits are not known yet.') || (button('Dry run').click(), false)`) // the next load tells its own error
	p.block(false, paths...)
	p.wait(`control('Most slaves').value === '8'`)
	p.wait(`!document.querySelector('.outcome.bad')`)
}
