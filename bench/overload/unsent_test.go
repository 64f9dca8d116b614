package overload

import (
	"strings"
	"testing"

	"rideshare/bench/loadgen"
)

// A scene of overload judges how much of it was sent: 1 % of the requests that were due may be missing.
func TestResult_Unsent_MakesTheOverloadWrong(t *testing.T) {
	for _, test := range []struct {
		unsent int64
		text   string
		ok     bool
	}{{0, "failed 100", true}, {10, "failed 100, due and not sent 10", true}, {11, "failed 100, due and not sent 11", false}} {
		f := figuresOf(stream{stage: "overload", work: "read", loop: loadgen.Open, level: 1000}, loadgen.Summary{Unsent: test.unsent, Kinds: []loadgen.Stretch{
			{Name: kindAccepted, Figures: loadgen.Figures{Count: 400}}, {Name: kindRefused, Figures: loadgen.Figures{Count: 300}}, {Name: kindOther, Figures: loadgen.Figures{Count: 190}}, {Name: kindFailed, Figures: loadgen.Figures{Count: 100}},
		}}, 400)
		var r Result
		r.add(f)
		r.sent("overload", f)
		r.finish()
		if r.OK != test.ok || r.Stages[0].Unsent != test.unsent || !strings.HasSuffix(r.Stages[0].String(), test.text) {
			t.Errorf("%d unsent of 990 sent: got %+v and %q, want ok: %v and %q", test.unsent, r.Checks, r.Stages[0], test.ok, test.text)
		}
	}
}
