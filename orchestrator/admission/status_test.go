package admission

import (
	"testing"

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
