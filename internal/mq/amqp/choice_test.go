package amqp //nolint:testpackage // the choice is not exported

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A loss at a node long after another one is a new loss.
func TestChoice_LaterLossEndsCallsAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var got []string
		c := &choice{names: []string{"a", "b"}, present: "a", ended: nowhere, ready: func(name string) { got = append(got, name) }}
		c.again(1) // one connection alone
		<-time.After(time.Minute)
		c.again(1)
		if diff := cmp.Diff([]string{"", "a", "", "a"}, got); diff != "" {
			t.Errorf("calls of ready (-want +got):\n%s", diff)
		}
	})
}

// The loss of a node ends the calls in flight once, whatever is lost there and in which order: what is sent again is not
// ended again.
func TestChoice_LossOfANodeEndsCallsOnce(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		lose func(c *choice)
		want []string // the calls of ready
	}{
		"PublisherElsewhere":      {func(c *choice) { c.again(1) }, []string{"", "a"}},
		"BothPublishersElsewhere": {func(c *choice) { c.again(1); c.again(1) }, []string{"", "a"}},
		"NodeElsewhere":           {func(c *choice) { c.again(1); c.set(1, ""); c.again(1) }, []string{"", "a"}},
		"NodeElsewhereQueueFirst": {func(c *choice) { c.set(1, ""); c.again(1) }, []string{"", "a"}},
		"PublisherAtTheQueue":     {func(c *choice) { c.again(0) }, nil},
		"NodeOfTheQueue":          {func(c *choice) { c.again(0); c.set(0, ""); c.again(0) }, []string{"b"}},
		"NodeOfTheQueueFirst":     {func(c *choice) { c.set(0, ""); c.again(0) }, []string{"b"}},
		"TwoNodes":                {func(c *choice) { c.set(0, ""); c.again(2) }, []string{"b", "", "b"}},
		"Twice":                   {func(c *choice) { c.again(1); c.set(1, ""); c.set(1, "d"); c.again(1) }, []string{"", "a", "", "a"}},
		"NoQueue":                 {func(c *choice) { c.set(1, ""); c.set(2, ""); c.set(0, ""); c.again(1) }, []string{""}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			c := &choice{names: make([]string, 3), ended: nowhere, ready: func(string) {}}
			for i, queue := range []string{"a", "b", "c"} {
				c.set(i, queue)
			}
			c.ready = func(name string) { got = append(got, name) }
			tt.lose(c)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("calls of ready (-want +got):\n%s", diff)
			}
		})
	}
}
