package admission

import (
	"encoding/json"
	"testing"
	"time"

	"rideshare/internal/dbaas"
)

// A request that ends with another refusal than that of a stage was admitted.
func TestGate_Counts_OtherRefusal(t *testing.T) {
	play(t, nil, func(r *rig) {
		guest, err := r.Arrive("ann", Write)
		r.want("a request", err, "")
		r.Leave(guest, dbaas.Refuse(dbaas.ReasonRunning, 0, "x"))
		if n := r.Status().Admitted; n != 1 {
			t.Errorf("got %d requests admitted, want 1", n)
		}
	})
}

// The stage of the limits shows, for the limited classes only, the tokens that all users together have left, and how many
// users have none.
func TestGate_Status_Limits(t *testing.T) {
	play(t, nil, func(r *rig) {
		want := func(what, limits string) {
			r.Helper()
			got, err := json.Marshal(r.Status().Stages["rate"].Limits)
			if err != nil || string(got) != limits {
				r.Errorf("%s: got %s, %v, want %s", what, got, err, limits)
			}
		}
		want("without limits", `{}`)
		if err := r.use(object{"limits": object{"write": "1:2", "write_total": "1:10", "read_total": "5:5"}}, "test"); err != nil {
			r.Fatal(err)
		}
		arrive := func(name string, n int) {
			for range n {
				if guest, err := r.Arrive(name, Write); err == nil {
					r.Leave(guest, nil)
				}
			}
		}
		arrive("ann", 3) // one too many
		arrive("bob", 1)
		want("ann has no token", `{"read":{"left":5},"write":{"left":7,"empty_users":1}}`)
		<-time.After(time.Second)
		want("a second later", `{"read":{"left":5},"write":{"left":8,"empty_users":0}}`)
	})
}
